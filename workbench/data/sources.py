"""The published data sets by name: shape, split, licence, origin, and files.

A checksum is written in :mod:`workbench.data.routes` only if it has been published. Otherwise the
first fetch records it (:func:`workbench.data.fetch`), and other bytes are refused from then on.
data/README.md says what was compared with what.
"""

from __future__ import annotations

from workbench.data.routes import (
    CC_BY,
    Source,
    idx,
    libsvm,
    lshtc,
    newsgroups,
    openml,
    resnet18,
    uci,
)

FASHION = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
)
MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)


LANDSAT = (6_435, 36, 6), "146/statlog+landsat+satellite.zip", "sat.trn", "sat.tst"
LANDSAT_CLASSES = (1, 2, 3, 4, 5, 7)  # there is no class 6

SOURCES = {
    # Small tables: minimax risk classifiers.
    "pulsar": uci(
        "UCI HTRU2", (17_898, 8, 2), "372/htru2.zip", "HTRU_2.csv", labels=("noise", "pulsar")
    ),
    "house16": openml(
        "house_16H: price above its mean (N) or not (P)", (22_784, 16, 2), "public", 821, ("N", "P")
    ),
    "satellite": uci(
        "UCI Statlog Landsat Satellite, all rows", *LANDSAT, separator=None, labels=LANDSAT_CLASSES
    ),
    "dry_bean": uci(
        "UCI Dry Bean", (13_611, 16, 7), "602/dry+bean+dataset.zip", "Dry_Bean_Dataset.arff"
    ),
    "optdigits": uci(
        "UCI Optical Recognition of Handwritten Digits, all rows",
        (5_620, 64, 10),
        "80/optical+recognition+of+handwritten+digits.zip",
        "optdigits.tra",
        "optdigits.tes",
    ),
    "adult": uci(
        "UCI Adult, words coded 1, 2, ... in alphabetical order",
        (48_842, 14, 2),
        "2/adult.zip",
        "adult.data",
        "adult.test",
        labels=("<=50K", ">50K"),
    ),
    "letter_raw": uci(
        "UCI Letter Recognition, unscaled, all rows",
        (20_000, 16, 26),
        "59/letter+recognition.zip",
        "letter-recognition.data",
        label=0,
    ),
    # Images.
    "mnist": idx("MNIST, LeCun and Cortes", "CC BY-SA 3.0", MNIST),
    "fashion_mnist": idx("Fashion-MNIST, Zalando", "MIT", FASHION),
    "usps": libsvm(
        "USPS zip codes, pixels in [-1, 1]",
        (7_291, 9_298, 256, 10),
        "usps.bz2 usps.t.bz2",
        labels=tuple(range(10)),
    ),
    # Red, green and blue of a pixel side by side, as in cifar10_4k.
    "cifar10": libsvm(
        "CIFAR-10, Krizhevsky", (50_000, 60_000, 3_072, 10), "cifar10.bz2 cifar10.t.bz2", planes=3
    ),
    "aloi": libsvm("ALOI, scaled", (None, 108_000, 128, 1_000), "aloi.scale.bz2"),
    # Weston-Watkins tables: LIBSVM's scaled editions.
    "dna": libsvm("Statlog DNA", (2_000, 3_186, 180, 3), "dna.scale dna.scale.t"),
    "satimage": uci(
        "UCI Statlog Landsat Satellite, published split, unscaled",
        *LANDSAT,
        separator=None,
        labels=LANDSAT_CLASSES,
        n_train=4_435,
    ),
    "letter": libsvm(
        "UCI Letter Recognition, scaled",
        (15_000, 20_000, 16, 26),
        "letter.scale letter.scale.t",
        CC_BY,
    ),
    "sector": libsvm(
        "Industry Sector, scaled",
        (6_412, 9_619, 55_197, 105),
        "sector/sector.scale.bz2 sector/sector.t.scale.bz2",
        sparse=True,
    ),
    "news20_libsvm": libsvm(
        "20 Newsgroups, Rennie's split, scaled",
        (15_935, 19_928, 62_061, 20),
        "news20.scale.bz2 news20.t.scale.bz2",
        sparse=True,
    ),
    # The test file (518,571 rows) is left out: of the 53 topics, it has two that the training rows
    # lack, and every class of a problem needs a training row.
    "rcv1_multiclass": libsvm(
        "RCV1, one topic per document, the training file",
        (None, 15_564, 47_236, 51),
        "rcv1_train.multiclass.bz2",
        sparse=True,
    ),
    # Text and other sparse rows.
    "news20": newsgroups(
        "20 Newsgroups by date, raw counts of the training rows' words",
        (18_846, None, 20),
        n_train=11_314,
    ),
    "news20_binary": libsvm(
        "20 Newsgroups, two classes", (None, 19_996, 1_355_191, 2), "news20.binary.bz2", sparse=True
    ),
    "rcv1": libsvm(
        "RCV1, two classes, the training file",
        (None, 20_242, 47_236, 2),
        "rcv1_train.binary.bz2",
        sparse=True,
    ),
    "real_sim": libsvm("UseNet articles", (None, 72_309, 20_958, 2), "real-sim.bz2", sparse=True),
    "a9a": libsvm(
        "UCI Adult, binarised", (32_561, 48_842, 123, 2), "a9a a9a.t", CC_BY, sparse=True
    ),
    "ijcnn1": libsvm("IJCNN 2001 competition", (49_990, 141_691, 22, 2), "ijcnn1.bz2 ijcnn1.t.bz2"),
    "covtype": libsvm("UCI Covertype", (None, 581_012, 54, 7), "covtype.bz2", CC_BY),
    # Features of the paper on minimax risk classifiers: of three sets its authors publish them; of
    # the others, tables and figures use a NAME.npz in the local mirror. Not reached from here.
    "cats_vs_dogs_resnet18": resnet18(
        "Cats vs Dogs", (23_262, 512, 2), "catsvsdogs", parts=2, header=True
    ),
    "yearbook_resnet18": resnet18("Yearbook portraits", (37_921, 512, 2), "yearbook", parts=2),
    "mnist_resnet18": resnet18("MNIST", (70_000, 512, 10), "mnist", parts=5),
    **{
        f"{name}_resnet18": Source(
            f"ResNet18 features of {images}", (n, 512, k), "that of the images"
        )
        for name, images, n, k in (
            ("fashion_mnist", "Fashion-MNIST", 70_000, 10),
            ("cifar10", "CIFAR-10", 60_000, 10),
            ("cifar100", "CIFAR-100", 60_000, 100),
        )
    },
    # Text of very many classes, a row for each label of a document. Not reached from here.
    "dmoz": lshtc("DMOZ, the training file", "DMOZ.zip"),
    "wiki_small": lshtc("Wikipedia, small, the training file", "wikipediaSmallv2.0.tar.gz"),
    # No public file has these rows: a local mirror (data/README.md) can hold them.
    "rcv1_ce_g": Source(
        "RCV1-v2, CCAT or ECAT against GCAT: a stand-in for rcv1", (10_807, 47_236, 2)
    ),
    "onet_titles": Source(
        "O*NET alternate job titles (USDOL/ETA), word counts", (52_754, 10_353, 1_016), CC_BY
    ),
    "omniglot": Source("Omniglot, Lake et al., 28 x 28 pixels", (32_460, 784, 1_623), "MIT"),
    "cifar10_4k": Source("CIFAR-10, the first 4000 training images only", (4_000, 3_072, 10)),
}
