"""The published data sets by name: shape, split, licence, origin, and the routes to each.

A checksum is written here only where it has been published. Otherwise the first fetch records it
(:func:`workbench.data.fetch`), and other bytes are refused from then on. `labels` names the
classes where the routes spell them differently. data/README.md says what was compared with what.
"""

from __future__ import annotations

from workbench.data.routes import Source, idx, libsvm, newsgroups, openml, uci

CC_BY = "CC BY 4.0"
LANDSAT = uci(
    "146/statlog+landsat+satellite.zip",
    ("sat.trn", "sat.tst"),
    old="statlog/satimage",
    separator=None,
)
LANDSAT_CLASSES = (1, 2, 3, 4, 5, 7)  # there is no class 6
FASHION = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
)
MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)

SOURCES = {
    # Small tables: minimax risk classifiers.
    "pulsar": Source(
        shape=(17_898, 8, 2),
        licence=CC_BY,
        origin="UCI HTRU2",
        labels=("noise", "pulsar"),
        routes=uci(
            "372/htru2.zip",
            ("HTRU_2.csv",),
            twin="00372/HTRU2.zip",
            sha256="ba442c076dd22a8952700f26e38499fc1806037dcf7bea0e125e6bfba393f379",
        ),
    ),
    "house16": Source(
        shape=(22_784, 16, 2),
        licence="public",
        origin="house_16H: price above its mean (N) or not (P), OpenML 821",
        labels=("N", "P"),
        routes=openml(821),
    ),
    "satellite": Source(
        shape=(6_435, 36, 6),
        licence=CC_BY,
        origin="UCI Statlog Landsat Satellite, all rows",
        labels=LANDSAT_CLASSES,
        routes=LANDSAT,
    ),
    "dry_bean": Source(
        shape=(13_611, 16, 7),
        licence=CC_BY,
        origin="UCI Dry Bean",
        routes=uci(
            "602/dry+bean+dataset.zip",
            ("Dry_Bean_Dataset.arff",),
            sha256="0a64eff5be87f48c3dbbfc0a12a56c5d5b5167ef8e61cd45d69b3e7c7130c06f",
        ),
    ),
    "optdigits": Source(
        shape=(5_620, 64, 10),
        licence=CC_BY,
        origin="UCI Optical Recognition of Handwritten Digits, all rows",
        routes=uci(
            "80/optical+recognition+of+handwritten+digits.zip",
            ("optdigits.tra", "optdigits.tes"),
            old="optdigits",
        ),
    ),
    "adult": Source(
        shape=(48_842, 14, 2),
        licence=CC_BY,
        origin="UCI Adult, words coded 1, 2, ... in alphabetical order",
        labels=("<=50K", ">50K"),
        routes=uci("2/adult.zip", ("adult.data", "adult.test"), old="adult"),
    ),
    "letter_raw": Source(
        shape=(20_000, 16, 26),
        licence=CC_BY,
        origin="UCI Letter Recognition, unscaled, all rows",
        routes=uci(
            "59/letter+recognition.zip",
            ("letter-recognition.data",),
            old="letter-recognition",
            sha256="3b5f07a334697b6cace4fbae22940393a18fee596e73f68d97ce5973d52dc60f",
            label=0,
        ),
    ),
    # Images.
    "mnist": Source(
        shape=(70_000, 784, 10),
        n_train=60_000,
        licence="CC BY-SA 3.0",
        origin="MNIST, LeCun and Cortes",
        routes=idx(*MNIST) + openml(554),
    ),
    "fashion_mnist": Source(
        shape=(70_000, 784, 10),
        n_train=60_000,
        licence="MIT",
        origin="Fashion-MNIST, Zalando",
        routes=idx(*FASHION),
    ),
    "usps": Source(
        shape=(9_298, 256, 10),
        n_train=7_291,
        licence="not stated",
        origin="USPS zip codes, pixels in [-1, 1]",
        labels=tuple(range(10)),
        routes=libsvm("multiclass/usps.bz2", "multiclass/usps.t.bz2", dense=True),
    ),
    "cifar10": Source(
        shape=(60_000, 3_072, 10),
        n_train=50_000,
        licence="not stated",
        origin="CIFAR-10, Krizhevsky",
        # Red, green and blue of a pixel side by side, as in cifar10_4k.
        routes=libsvm("multiclass/cifar10.bz2", "multiclass/cifar10.t.bz2", dense=True, planes=3),
    ),
    "aloi": Source(
        shape=(108_000, 128, 1_000),
        licence="not stated",
        origin="ALOI, scaled, LIBSVM",
        routes=libsvm("multiclass/aloi.scale.bz2", dense=True),
    ),
    # Weston-Watkins tables: LIBSVM's scaled editions.
    "dna": Source(
        shape=(3_186, 180, 3),
        n_train=2_000,
        licence="not stated",
        origin="Statlog DNA, LIBSVM",
        routes=libsvm("multiclass/dna.scale", "multiclass/dna.scale.t", dense=True),
    ),
    "satimage": Source(
        shape=(6_435, 36, 6),
        n_train=4_435,
        licence=CC_BY,
        origin="UCI Statlog Landsat Satellite, published split, unscaled",
        labels=LANDSAT_CLASSES,
        routes=LANDSAT,
    ),
    "satimage_libsvm": Source(
        shape=(6_435, 36, 6),
        n_train=4_435,
        licence=CC_BY,
        origin="UCI Statlog Landsat Satellite, scaled, LIBSVM",
        routes=libsvm("multiclass/satimage.scale", "multiclass/satimage.scale.t", dense=True),
    ),
    "letter": Source(
        shape=(20_000, 16, 26),
        n_train=15_000,
        licence=CC_BY,
        origin="UCI Letter Recognition, scaled, LIBSVM",
        routes=libsvm("multiclass/letter.scale", "multiclass/letter.scale.t", dense=True),
    ),
    "sector": Source(
        shape=(9_619, 55_197, 105),
        n_train=6_412,
        licence="not stated",
        origin="Industry Sector, scaled, LIBSVM",
        routes=libsvm("multiclass/sector/sector.scale.bz2", "multiclass/sector/sector.t.scale.bz2"),
    ),
    "news20_libsvm": Source(
        shape=(19_928, 62_061, 20),
        n_train=15_935,
        licence="not stated",
        origin="20 Newsgroups, Rennie's split, scaled, LIBSVM",
        routes=libsvm("multiclass/news20.scale.bz2", "multiclass/news20.t.scale.bz2"),
    ),
    # The test file (518,571 rows) is left out: of the 53 topics, others count 51 in the training
    # rows, and every class of a problem needs a training row.
    "rcv1_multiclass": Source(
        shape=(15_564, 47_236, 51),
        licence="not stated",
        origin="RCV1, one topic a document, LIBSVM's training file",
        routes=libsvm("multiclass/rcv1_train.multiclass.bz2"),
    ),
    # Text and other sparse rows.
    "news20": Source(
        shape=(18_846, None, 20),
        n_train=11_314,
        licence="not stated",
        origin="20 Newsgroups by date, raw counts of the training rows' words",
        routes=newsgroups(),
    ),
    "news20_binary": Source(
        shape=(19_996, 1_355_191, 2),
        licence="not stated",
        origin="20 Newsgroups, two classes, LIBSVM",
        routes=libsvm("binary/news20.binary.bz2"),
    ),
    "rcv1": Source(
        shape=(20_242, 47_236, 2),
        licence="not stated",
        origin="RCV1, two classes, LIBSVM's training file",
        routes=libsvm("binary/rcv1_train.binary.bz2"),
    ),
    "real_sim": Source(
        shape=(72_309, 20_958, 2),
        licence="not stated",
        origin="UseNet articles, LIBSVM",
        routes=libsvm("binary/real-sim.bz2"),
    ),
    "a9a": Source(
        shape=(48_842, 123, 2),
        n_train=32_561,
        licence=CC_BY,
        origin="UCI Adult, binarised, LIBSVM",
        routes=libsvm("binary/a9a", "binary/a9a.t"),
    ),
    "ijcnn1": Source(
        shape=(141_691, 22, 2),
        n_train=49_990,
        licence="not stated",
        origin="IJCNN 2001 competition, LIBSVM",
        routes=libsvm("binary/ijcnn1.bz2", "binary/ijcnn1.t.bz2", dense=True),
    ),
    "covtype": Source(
        shape=(581_012, 54, 7),
        licence=CC_BY,
        origin="UCI Covertype, LIBSVM",
        routes=libsvm("multiclass/covtype.bz2", dense=True),
    ),
    # Features that the paper on minimax risk classifiers took from a ResNet18. No public file has
    # them; who has can put NAME.npz into the local mirror, and tables and figures will use it.
    **{
        f"{name}_resnet18": Source(
            shape=(n, 512, k),
            licence="that of the images",
            origin=f"ResNet18 features of {images}",
        )
        for name, images, n, k in (
            ("cats_vs_dogs", "Cats vs Dogs", 23_262, 2),
            ("yearbook", "Yearbook portraits", 37_921, 2),
            ("mnist", "MNIST", 70_000, 10),
            ("fashion_mnist", "Fashion-MNIST", 70_000, 10),
            ("cifar10", "CIFAR-10", 60_000, 10),
            ("cifar100", "CIFAR-100", 60_000, 100),
        )
    },
    # No public file has these rows: a local mirror (data/README.md) can hold them.
    "rcv1_ce_g": Source(
        shape=(10_807, 47_236, 2),
        licence="not stated",
        origin="RCV1-v2, CCAT or ECAT against GCAT: a stand-in for rcv1",
    ),
    "onet_titles": Source(
        shape=(52_754, 10_353, 1_016),
        licence=CC_BY,
        origin="O*NET alternate job titles (USDOL/ETA), word counts",
    ),
    "omniglot": Source(
        shape=(32_460, 784, 1_623),
        licence="MIT",
        origin="Omniglot, Lake et al., 28 x 28 pixels",
    ),
    "cifar10_4k": Source(
        shape=(4_000, 3_072, 10),
        licence="not stated",
        origin="CIFAR-10, the first 4000 training images only",
    ),
}
