#include <filesystem>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/artifact/loader.h"
#include "tests/support/image_folder_fixture.h"
#include "tests/support/planning_context.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ImageFolder, DescribesTheTransform) {
  add_photos();
  const auto outputs = run(R"({"image_size": 24, "augment": {"horizontal_flip": 0.5}})");
  const Json transform = Json::parse(part(outputs, "train")->describe().transform);
  EXPECT_EQ(transform["kind"], "image");
  EXPECT_EQ(transform["image_size"], 24);
  EXPECT_EQ(part(outputs, "test")->describe().transform,
            part(outputs, "train")->describe().transform);
}

TEST_F(ImageFolder, ImagesToCreateArePlanned) {
  const std::string options =
      R"({"image_size": 16, "make": {"classes": 3, "per_class": 5, "size": 16}})";
  const auto stage = create(options);
  ASSERT_TRUE(stage);
  PlanningContext planning;
  const auto planned = (*stage)->plan(runner::Inputs({}), planning);
  ASSERT_TRUE(planned);
  EXPECT_FALSE(fs::exists(folder_ / "data"));
  const auto made = (*stage)->run(runner::Inputs({}), context_);
  for (const char* name : {"train", "test"}) {
    const auto expected = part(made, name), found = part(*planned, name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->describe().size, expected->describe().size);
    EXPECT_EQ(found->describe().classes, expected->describe().classes);
    for (std::int64_t i = 0; i < found->describe().size; ++i)
      EXPECT_EQ(found->sample_name(i), expected->sample_name(i));
  }
  EXPECT_FALSE((*stage)->plan(runner::Inputs({}), planning));
}

TEST_F(ImageFolder, ReportsTheSplit) {
  add_photos();
  const auto outputs =
      run(R"({"image_size": 16, "split": {"train": 0.6, "validation": 0.2, "test": 0.2}})");
  const auto train = part(outputs, "train");
  EXPECT_EQ(train->describe().size, 12);
  EXPECT_EQ(part(outputs, "validation")->describe().size, 4);
  EXPECT_EQ(part(outputs, "test")->describe().size, 4);
  EXPECT_THAT(train->describe().classes, ElementsAre("c0", "c1"));
  EXPECT_EQ(train->describe().tensors[0].shape, (std::vector<std::int64_t>{3, 16, 16}));
  EXPECT_THAT(train->sample_name(0), HasSubstr("c0/1"));
  EXPECT_EQ(train->sample(0, 11)->at("label").item<std::int64_t>(), 1);
  EXPECT_THAT(context_.said,
              ElementsAre("2 classes; 12 images for training, 4 for validation, 4 for test"));
}

TEST_F(ImageFolder, IgnoredFilesAreReported) {
  add_photos();
  for (const char* const name : {"c0/notes.txt", "c0/list.txt", "c1/a.svg", ".cache/a.jpg"})
    write_bytes(data() / name, {});
  run();
  EXPECT_THAT(context_.said, ElementsAre(HasSubstr("2 classes; 16 images"),
                                         "3 files ignored: 2 .txt, 1 .svg; 1 hidden folder"));
}

TEST_F(ImageFolder, OnCorruptAppliesToUnsupportedFormats) {
  add_photos();
  write_bytes(data() / "c0/a.gif", {});
  write_bytes(data() / "c1/b.TIFF", {});
  EXPECT_REFUSED(errors(), kUnsupportedImage, "/data/root", "2 images", "1 .gif, 1 .tiff");
  run(R"({"on_corrupt": "skip"})");
  EXPECT_THAT(context_.said, testing::Contains("2 files ignored: 1 .gif, 1 .tiff"));
}

TEST_F(ImageFolder, WebpIsReadAlongWithOtherFormats) {
  add_photos();
  const auto webp = file_bytes(fs::path(RETORT_SOURCE_DIR) / "tests/golden/webp/lossy.webp");
  write_bytes(data() / "c0/a.webp", webp);
  const auto train =
      part(run(R"({"image_size": 16, "split": {"train": 1.0, "test": 0.0}})"), "train");
  ASSERT_EQ(train->sample_name(10), "c0/a.webp");
  EXPECT_EQ(image(*train, 0, 10).sizes(), (std::vector<std::int64_t>{3, 16, 16}));
}

TEST_F(ImageFolder, ImagesWith16BitsAreReportedOnceAfterReading) {
  add_photos();
  const std::vector<std::uint16_t> gray(256, 0x80FF);
  for (const char* const name : {"c0/deep.png", "c1/deep.png"})
    write_bytes(data() / name, encode_png(16, 16, gray.data(), PNG_FORMAT_LINEAR_Y));
  const auto train =
      part(run(R"({"image_size": 16, "split": {"train": 1.0, "test": 0.0}})"), "train");
  context_.said.clear();
  report_remarks({train.get()}, 0, context_);
  EXPECT_THAT(context_.said, IsEmpty()) << "nothing has been read";
  for (std::int64_t i = 0; i < train->describe().size; ++i) static_cast<void>(train->sample(0, i));
  for (const std::int64_t step : {1, 2}) report_remarks({train.get()}, step, context_);
  EXPECT_THAT(context_.said,
              ElementsAre("warning: 2 images have 16 bits per channel, of which the lower 8 are "
                          "dropped: 'c0/deep.png', 'c1/deep.png'"));
  EXPECT_THAT(context_.metrics, IsEmpty());
}

TEST_F(ImageFolder, ValidationIsOmittedIfEmpty) {
  add_photos();
  const auto outputs = run(R"({"split": {"train": 1.0, "test": 0.0}})");
  EXPECT_EQ(part(outputs, "validation"), nullptr);
  EXPECT_EQ(part(outputs, "test")->describe().size, 0);
}

TEST_F(ImageFolder, TrainingSampleDependsOnlyOnSeedEpochAndIndex) {
  add_photos();
  const std::string options =
      R"({"image_size": 16, "augment": {"random_resized_crop": {}, "horizontal_flip": 0.5}})";
  const auto train = to_train_on(run(options)), again = to_train_on(run(options));
  EXPECT_TRUE(image(*train, 3, 5).equal(image(*again, 3, 5)));
  EXPECT_FALSE(image(*train, 3, 5).equal(image(*train, 4, 5)));
  context_.facts.seed = 99;
  const auto other = to_train_on(
      run(R"({"image_size": 16, "split": {"seed": 1}, "augment": {"random_resized_crop": {}}})"));
  context_.facts.seed = 98;
  const auto another = to_train_on(
      run(R"({"image_size": 16, "split": {"seed": 1}, "augment": {"random_resized_crop": {}}})"));
  EXPECT_EQ(other->sample_name(5), another->sample_name(5));
  EXPECT_FALSE(image(*other, 0, 5).equal(image(*another, 0, 5)));
}

TEST_F(ImageFolder, EvaluationSamplesAreNotAugmented) {
  add_photos();
  const auto augmented =
      run(R"({"image_size": 16, "augment": {"random_resized_crop": {}, "horizontal_flip": 1.0}})");
  const auto plain = run(R"({"image_size": 16})");
  // Training data is not augmented either, unless it is used for training.
  for (const char* const port : {"train", "test"}) {
    const auto data = part(augmented, port);
    EXPECT_TRUE(image(*data, 0, 1).equal(image(*data, 7, 1)));
    EXPECT_TRUE(image(*data, 0, 1).equal(image(*part(plain, port), 0, 1)));
  }
}

TEST_F(ImageFolder, CacheAndWorkersDoNotChangeBits) {
  add_photos(2, 12);
  std::vector<at::Tensor> expected;
  for (const char* const decode : {"exact", "fast"}) {
    expected.clear();
    for (const int cache : {0, 1, 100}) {
      for (const int workers : {0, 8}) {
        const auto train = to_train_on(
            run(R"({"image_size": 8, "augment": {"random_resized_crop": {}}, "decode": ")" +
                std::string(decode) + R"(", "cache_mib": )" + std::to_string(cache) +
                R"(, "loader": {"workers": )" + std::to_string(workers) + "}}"));
        std::vector<at::Tensor> images;
        for (const std::int64_t epoch : {0, 1, 0}) {
          Loader loader(train, shuffled_order(train->describe().size, 1, epoch), 5, epoch);
          while (const auto batch = loader.next()) images.push_back((*batch)["image"]);
        }
        if (expected.empty()) expected = images;
        ASSERT_EQ(images.size(), expected.size());
        for (std::size_t i = 0; i < images.size(); ++i) ASSERT_TRUE(images[i].equal(expected[i]));
      }
    }
  }
}

TEST_F(ImageFolder, CachedImageIsNotReadAgain) {
  add_photos();
  const auto train = part(run(R"({"image_size": 16, "cache_mib": 10})"), "train");
  const at::Tensor before = image(*train, 0, 2);
  fs::remove(folder_ / ("data/" + train->sample_name(2)));
  EXPECT_TRUE(image(*train, 5, 2).equal(before));
}

TEST_F(ImageFolder, PartsThatShareACacheDoNotMixImages) {
  add_photos();
  const std::string split =
      R"("image_size": 16, "split": {"train": 0.6, "validation": 0.2, "test": 0.2})";
  const auto plain = run("{" + split + "}"), cached = run("{" + split + R"(, "cache_mib": 10})");
  for (int pass = 0; pass < 2; ++pass) {
    for (const char* port : {"train", "validation", "test"})
      EXPECT_TRUE(image(*part(cached, port), 0, 1).equal(image(*part(plain, port), 0, 1))) << port;
  }
}

TEST_F(ImageFolder, FastDecodingIsCloseToExact) {
  Image smooth(400, 300);
  for (int y = 0; y < 300; ++y) {
    for (int x = 0; x < 1200; ++x) smooth.row(y)[x] = static_cast<std::uint8_t>((x / 3 + y) / 3);
  }
  for (const char* const name : {"data/a/1.jpg", "data/a/2.jpg"})
    write_bytes(folder_ / name, encode_jpeg(smooth, 95));
  const auto exact = part(run(R"({"image_size": 32})"), "train"),
             fast = part(run(R"({"image_size": 32, "decode": "fast"})"), "train");
  EXPECT_LT((image(*exact, 0, 0) - image(*fast, 0, 0)).abs().max().item<float>(), 0.05);
  EXPECT_FALSE(image(*exact, 0, 0).equal(image(*fast, 0, 0)));
}

TEST_F(ImageFolder, CorruptImageStopsTheRunWithItsName) {
  add_photos();
  fs::resize_file(folder_ / "data/c0/100.jpg", 300);
  const auto train = part(run(R"({"split": {"train": 1.0, "test": 0.0}})"), "train");
  EXPECT_REFUSED(train->sample(0, 0), kCorruptImage, "/data/root", "'c0/100.jpg'",
                 "on_corrupt: skip");
}

TEST_F(ImageFolder, CorruptImagesCanBeSkippedButMissingOnesCannot) {
  add_photos();
  write_bytes(folder_ / "data/c0/100.jpg", {});
  fs::remove(folder_ / "data/c0/101.jpg");
  folder_.add("data/c0/101.jpg");
  const auto train =
      part(run(R"({"split": {"train": 1.0, "test": 0.0}, "on_corrupt": "skip"})"), "train");
  EXPECT_FALSE(train->sample(0, 0).has_value());
  fs::remove(folder_ / "data/c0/101.jpg");
  EXPECT_REFUSED(train->sample(0, 1), kMissingImage, "/data/root", "'c0/101.jpg'");
}

TEST_F(ImageFolder, MissingFolderIsReportedAtItsOption) {
  EXPECT_REFUSED(errors(R"({"root": "gone"})"), kMissingFolder, "/data/root", "gone");
}

TEST_F(ImageFolder, CreatesMissingImagesOnceAndRejectsDifferentCounts) {
  const std::string options =
      R"({"image_size": 16, "make": {"classes": 2, "per_class": 5, "size": 16}})";
  EXPECT_EQ(part(run(options), "train")->describe().size, 8);
  EXPECT_THAT(context_.said.front(), HasSubstr("creating 10 images in '"));
  EXPECT_EQ(context_.all_progress.back().step, 10);
  context_.said.clear();
  EXPECT_EQ(part(run(options), "test")->describe().size, 2);
  EXPECT_EQ(context_.said.size(), 1u);
  EXPECT_REFUSED(errors(R"({"make": {"classes": 3, "per_class": 5, "size": 16}})"), kOptionConflict,
                 "/data/make");
  fs::remove(folder_ / "data/.retort-made.json");
  EXPECT_REFUSED(errors(options), kFolderExists, "/data/make");
}

TEST_F(ImageFolder, CreatingTheStageWritesNothing) {
  EXPECT_THAT(errors(R"({"make": {"classes": 2, "per_class": 5, "size": 16}})"),
              testing::IsEmpty());
  EXPECT_FALSE(fs::exists(folder_ / "data"));
}

TEST_F(ImageFolder, FingerprintCoversExistingAndCreatedFiles) {
  add_photos();
  const std::string first = (*create("{}"))->fingerprint();
  EXPECT_EQ((*create(R"({"image_size": 16})"))->fingerprint(), first);
  folder_.add("data/c1/999.jpg", 1, 40, 33);
  EXPECT_NE((*create("{}"))->fingerprint(), first);

  const std::string made = R"({"root": ")" + (folder_ / "made").string() +
                           R"(", "make": {"classes": 2, "per_class": 2}})";
  auto stage = create(made);
  EXPECT_EQ((*stage)->fingerprint(), "");
  (*stage)->run(runner::Inputs({}), context_);
  const std::string then = (*stage)->fingerprint();
  EXPECT_FALSE(then.empty());
  EXPECT_EQ((*create(made))->fingerprint(), then);
}

TEST_F(ImageFolder, SeedIsUsedOnlyByRandomOptions) {
  add_photos();
  EXPECT_FALSE((*create("{}"))->uses_seed());
  EXPECT_TRUE((*create(R"({"split": {"seed": null}})"))->uses_seed());
  EXPECT_TRUE(
      (*create(R"({"split": {"seed": 3}, "augment": {"horizontal_flip": 0.5}})"))->uses_seed());
}

TEST_F(ImageFolder, OnlyTrainingSamplesAreAugmented) {
  add_photos();
  const auto plain = run("{}"), flipped = run(R"({"augment": {"horizontal_flip": 0.5}})");
  EXPECT_FALSE(to_train_on(plain)->describe().augmented);
  EXPECT_TRUE(to_train_on(flipped)->describe().augmented);
  EXPECT_FALSE(part(flipped, "train")->describe().augmented);
  EXPECT_FALSE(part(flipped, "test")->describe().augmented);
}

TEST_F(ImageFolder, PinningWithoutAGpuReportsNoEffect) {
  add_photos();
  const auto outputs = run(R"({"loader": {"pinned": true, "prefetch": 7, "drop_last": true}})");
  EXPECT_THAT(context_.said,
              testing::Contains("loader.pinned has no effect: nothing is copied to a GPU"));
  EXPECT_FALSE(part(outputs, "train")->loader().pinned);
  EXPECT_EQ(part(outputs, "train")->loader().prefetch, 7);
  EXPECT_TRUE(part(outputs, "train")->loader().drop_last);
}

TEST_F(ImageFolder, UnusedFolderIsReported) {
  folder_.add("data/train/a/1.jpg");
  folder_.add("data/other/a/1.jpg");
  folder_.add("data/test/a/1.jpg");
  run("{}");
  EXPECT_THAT(context_.said,
              testing::Contains("folders next to the part folders are not used: other"));
}

}  // namespace
}  // namespace stages
