#include "stages/data/image_dataset.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

constexpr std::uint64_t kSeed = 11;

/// One image in each part, with or without a box.
class ImageDatasetTest : public testing::Test {
 protected:
  ImageDatasetTest() {
    write_bytes(folder_.path() / "a.png",
                encode_png(image_.width, image_.height, image_.pixels.data()));
    options_.image_size = 24;
    options_.augment = {.horizontal_flip = 0.5,
                        .vertical_flip = 0.5,
                        .brightness = 0.3,
                        .contrast = 0.3,
                        .saturation = 0.3,
                        .hue = 0.2,
                        .rotation = 20,
                        .shear = 10,
                        .translation = 0.1,
                        .zoom = 0.2};
  }

  ImageDataset dataset(Part part = Part::kTrain, std::optional<Box> box = {},
                       std::shared_ptr<ImageCache> cache = {}) {
    auto list = std::make_shared<ImageList>();
    list->root = folder_.path();
    list->classes = {"only"};
    (*list)[part] = {{"a.png", 0, box}};
    return {list, part, options_, kSeed, cache};
  }
  /// The dataset as training reads it.
  std::shared_ptr<const Dataset> to_train_on(std::optional<Box> box = {},
                                             std::shared_ptr<ImageCache> cache = {}) {
    return dataset(Part::kTrain, box, std::move(cache)).for_training();
  }

  at::Tensor pixels(const Image& image) {
    const at::Tensor result = torch::empty({3, image.height, image.width});
    Normalization(options_.mean, options_.standard_deviation)
        .write(image, false, result.data_ptr<float>());
    return result;
  }

  DrawingFolder folder_;
  Image image_ = picture(61, 45, 4);
  ImageDatasetOptions options_;
};

at::Tensor image_of(const Dataset& data, std::int64_t epoch) {
  return data.sample(epoch, 0)->at("image");
}

/// What the dataset draws at random for its first image, of `width` x `height` pixels.
std::pair<Cut, ImageChange> drawn_for(const ImageDatasetOptions& options, std::int64_t epoch,
                                      int width, int height) {
  Random random({kSeed, static_cast<std::uint64_t>(epoch), 0});
  const Cut cut =
      training_cut(width, height, options.image_size, options.resize, options.augment, random);
  return {cut, drawn_change(options.augment, cut.mirrored, random)};
}

TEST_F(ImageDatasetTest, AugmentsTheWholeImageBeforeResizing) {
  const auto data = to_train_on();
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    const auto [cut, change] = drawn_for(options_, epoch, 61, 45);
    EXPECT_TRUE(image_of(*data, epoch)
                    .equal(pixels(apply(cut, changed(image_, change), Interpolation::kBicubic))));
  }
}

TEST_F(ImageDatasetTest, AugmentsARandomCropAfterResizing) {
  options_.augment.random_resized_crop = RandomResizedCrop{};
  const auto data = to_train_on();
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    const auto [cut, change] = drawn_for(options_, epoch, 61, 45);
    EXPECT_TRUE(image_of(*data, epoch)
                    .equal(pixels(changed(apply(cut, image_, Interpolation::kBicubic), change))));
  }
}

TEST_F(ImageDatasetTest, GeometryFirstAugmentsTheResizedImage) {
  options_.change_order = ChangeOrder::kPlacesFirst;
  const auto data = to_train_on();
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    auto [cut, change] = drawn_for(options_, epoch, 61, 45);
    change.steps = ChangeOrder::kPlacesFirst;
    EXPECT_TRUE(image_of(*data, epoch)
                    .equal(pixels(changed(apply(cut, image_, Interpolation::kBicubic), change))));
  }
}

TEST_F(ImageDatasetTest, FinalAugmentationsFollowTheCrop) {
  FinalAugment& last = options_.augment.last;
  last.policy = AugmentPolicy{.kind = AugmentPolicy::Kind::kRandAugment, .magnitude = 20};
  last.grayscale = 0.5;
  last.blur = RandomBlur{.probability = 0.5};
  for (const bool changes_before : {true, false}) {
    if (!changes_before) options_.augment = {.horizontal_flip = 0.5, .last = options_.augment.last};
    const auto plain = options_.augment;
    options_.augment.last = {};
    const auto before = to_train_on();
    options_.augment = plain;
    const auto cache = std::make_shared<ImageCache>(1 << 20);
    const auto data = to_train_on(), cached = to_train_on({}, cache);
    int changed = 0;
    for (std::int64_t epoch = 0; epoch < 12; ++epoch) {
      Random random({kSeed, static_cast<std::uint64_t>(epoch), 0, 1});
      const DrawnFinal drawn = drawn_final(options_.augment.last, options_.image_size, random);
      // There is no normalization, so these are the pixels before the final augmentations.
      const at::Tensor numbers = image_of(*before, epoch);
      Image image(options_.image_size, options_.image_size);
      const at::Tensor bytes =
          (numbers.permute({1, 2, 0}) * 255).round().to(at::kByte).contiguous();
      std::copy_n(bytes.const_data_ptr<std::uint8_t>(), image.pixels.size(), image.pixels.data());
      Image expected = with_policy(image, *drawn.policy, Neighbors::kNearest);
      for (const OperationAt& step : drawn.steps) expected = applied(std::move(expected), step);
      EXPECT_TRUE(image_of(*data, epoch).equal(pixels(expected))) << epoch;
      EXPECT_TRUE(image_of(*cached, epoch).equal(pixels(expected))) << epoch;
      changed += !image_of(*data, epoch).equal(numbers);
    }
    EXPECT_GT(changed, 6);
  }
  EXPECT_TRUE(image_of(dataset(), 3).equal(image_of(dataset(), 4))) << "not in evaluation";
}

TEST_F(ImageDatasetTest, ErasesARectangleInTheNormalizedImage) {
  options_.augment = {};
  options_.mean = {0.2, 0.3, 0.4};
  const at::Tensor whole = image_of(*to_train_on(), 0);
  for (const auto fill : {RandomErasing::Fill::kMean, RandomErasing::Fill::kNoise}) {
    options_.augment.last.erasing = RandomErasing{.probability = 1,
                                                  .smallest_area = 0.25,
                                                  .largest_area = 0.25,
                                                  .narrowest = 1,
                                                  .widest = 1,
                                                  .fill = fill};
    const auto data = to_train_on();
    EXPECT_TRUE(data->describe().augmented);
    const at::Tensor erased = image_of(*data, 0);
    EXPECT_TRUE(erased.equal(image_of(*data, 0))) << "depends on seed, epoch and index";
    EXPECT_FALSE(erased.equal(image_of(*data, 1)));
    // The erased part spans half of each side: 12 of 24 pixels.
    const at::Tensor differs = erased.ne(whole).any(0);
    EXPECT_NEAR(differs.sum().item<std::int64_t>(), 144, 3) << "some values may be equal by chance";
    const at::Tensor place = differs.nonzero();
    const at::Tensor size = std::get<0>(place.max(0)) - std::get<0>(place.min(0)) + 1;
    EXPECT_TRUE(size.equal(torch::tensor({12, 12}, at::kLong))) << size;
    const at::Tensor values = erased.masked_select(differs);
    if (fill == RandomErasing::Fill::kMean) EXPECT_TRUE(values.eq(0).all().item<bool>());
    else EXPECT_LT(values.mean().abs().item<double>(), 5 / std::sqrt(432.0)) << "with 432 numbers";
  }
}

TEST_F(ImageDatasetTest, PreprocessesAtFullSizeInEveryPart) {
  options_.preprocessing.clahe = Clahe{};
  options_.augment = {};
  const Image made = preprocessed(image_, options_.preprocessing);
  const at::Tensor expected =
      pixels(apply(evaluation_cut(61, 45, 24, {}), made, Interpolation::kBicubic));
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const auto cache = std::make_shared<ImageCache>(1 << 20);
    const ImageDataset data = dataset(part, {}, cache);
    for (int again = 0; again < 2; ++again) EXPECT_TRUE(image_of(data, again).equal(expected));
  }
  options_.preprocessing = {};
  EXPECT_FALSE(image_of(dataset(Part::kTest), 0).equal(expected));
}

TEST_F(ImageDatasetTest, AugmentsOnlyTheBoxOfAnImage) {
  const auto data = to_train_on(Box{10, 5, 40, 30});
  Image part(40, 30);
  for (int row = 0; row < 30; ++row) std::copy_n(image_.row(row + 5) + 30, 120, part.row(row));
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    const auto [cut, change] = drawn_for(options_, epoch, 40, 30);
    EXPECT_TRUE(image_of(*data, epoch)
                    .equal(pixels(apply(cut, changed(part, change), Interpolation::kBicubic))));
  }
}

TEST_F(ImageDatasetTest, AugmentationsVaryByEpochAndDoNotDependOnTheCache) {
  const auto cache = std::make_shared<ImageCache>(1 << 20);
  const auto data = to_train_on(), cached = to_train_on({}, cache);
  EXPECT_FALSE(image_of(*data, 0).equal(image_of(*data, 1)));
  for (const std::int64_t epoch : {0, 1, 0})
    EXPECT_TRUE(image_of(*cached, epoch).equal(image_of(*data, epoch)));
  EXPECT_TRUE(data->describe().augmented);
}

/// Counts the decoded images.
class KeptImagesTest : public ImageDatasetTest {
 protected:
  KeptImagesTest() {
    options_.change_order = ChangeOrder::kPlacesFirst;
    options_.look = [this](std::int64_t, const Image&) { ++decoded_; };
  }
  int decoded_ = 0;
};

TEST_F(KeptImagesTest, ImageIsDecodedOnceAndCroppedOnce) {
  for (const Decode decode : {Decode::kExact, Decode::kFast}) {
    options_.decode = decode;
    if (decode == Decode::kExact) options_.preprocessing.clahe = Clahe{};
    else options_.preprocessing = {};
    const auto cache = std::make_shared<ImageCache>(3 * 24 * 24 + ImageCache::kOverhead);
    const ImageDataset plain = dataset(Part::kTrain), kept = dataset(Part::kTrain, {}, cache);
    decoded_ = 0;
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      static_cast<void>(kept.sample(epoch, 0));
      static_cast<void>(kept.for_training()->sample(epoch, 0));
    }
    EXPECT_EQ(decoded_, 1);
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      EXPECT_TRUE(image_of(kept, epoch).equal(image_of(plain, epoch)));
      EXPECT_TRUE(
          image_of(*kept.for_training(), epoch).equal(image_of(*plain.for_training(), epoch)));
    }
  }
}

TEST_F(KeptImagesTest, RandomlyCroppedImageIsKeptWhole) {
  options_.augment.random_resized_crop = RandomResizedCrop{};
  const auto too_small = std::make_shared<ImageCache>(3 * 61 * 45 - 1),
             enough = std::make_shared<ImageCache>(3 * 61 * 45 + ImageCache::kOverhead);
  for (const auto& [cache, times] : {std::pair(too_small, 3), std::pair(enough, 1)}) {
    decoded_ = 0;
    const auto data = to_train_on({}, cache);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) static_cast<void>(data->sample(epoch, 0));
    EXPECT_EQ(decoded_, times);
  }
}

TEST_F(KeptImagesTest, ImageSmallerThanItsCropIsKeptUnchanged) {
  options_.image_size = 100;
  const auto data =
      to_train_on({}, std::make_shared<ImageCache>(3 * 61 * 45 + ImageCache::kOverhead));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_TRUE(image_of(*data, epoch).equal(image_of(*to_train_on(), epoch)));
  EXPECT_EQ(decoded_, 1 + 3);
}

TEST_F(KeptImagesTest, PlanMatchesTheMemoryOfKeptImages) {
  auto list = std::make_shared<ImageList>();
  list->root = folder_.path();
  (*list)[Part::kTrain] = {{"a.png", 0, {}}, {"a.png", 0, {}}};
  constexpr std::int64_t kCut = 3 * 24 * 24 + ImageCache::kOverhead,
                         kWhole = 3 * 61 * 45 + ImageCache::kOverhead;
  EXPECT_EQ(bytes_to_keep(*list, Part::kTrain, options_, true), 2 * kCut);
  options_.augment.random_resized_crop = RandomResizedCrop{};
  EXPECT_EQ(bytes_to_keep(*list, Part::kTrain, options_, false), 2 * kCut);
  EXPECT_GE(bytes_to_keep(*list, Part::kTrain, options_, true), 2 * kWhole);
  EXPECT_LE(bytes_to_keep(*list, Part::kTrain, options_, true), 3 * kWhole);
  EXPECT_EQ(bytes_to_keep(*list, Part::kTest, options_, true), 0);
}

const ImageSubject kNothing = {
    .name = "nothing", .what = "nothing", .looks_alike = [](const Image&) { return false; }};

TEST_F(KeptImagesTest, ImagesThatExceedMemoryAreKeptOnDiskForLaterRuns) {
  const ImageDataset plain = dataset();
  std::vector<at::Tensor> expected;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch)
    expected.push_back(image_of(*plain.for_training(), epoch));
  const at::Tensor unchanged = image_of(plain, 0);
  decoded_ = 0;
  const auto small = std::make_shared<ImageCache>(10);
  for (int run = 0; run < 2; ++run) {
    options_.store = std::make_shared<ImageStore>(1 << 20, "cut");
    options_.store->open(folder_.path(), "build");
    options_.subject = &kNothing;
    options_.watch = std::make_shared<SubjectWatch>(kNothing);
    const ImageDataset data = dataset(Part::kTrain, {}, run == 0 ? nullptr : small);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch)
      EXPECT_TRUE(
          image_of(*data.for_training(), epoch).equal(expected[static_cast<std::size_t>(epoch)]));
    EXPECT_TRUE(image_of(data, 0).equal(unchanged));
    EXPECT_EQ(decoded_, 1);
    const std::vector<std::int64_t> all = {0};
    EXPECT_EQ(data.take_remarks(all).front().count, 1)
        << "it does not show its subject, no matter which read decoded it";
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "pictures"))
    if (entry.is_regular_file()) write_bytes(entry.path(), {1, 2, 3});
  EXPECT_TRUE(image_of(dataset(), 0).equal(unchanged));
  EXPECT_EQ(decoded_, 2);
}

TEST_F(KeptImagesTest, StoredImagesRecordWhetherTheirFilesHave16Bits) {
  const std::vector<std::uint16_t> gray(std::size_t{61} * 45, 0x80FF);
  write_bytes(folder_ / "a.png", encode_png(61, 45, gray.data(), PNG_FORMAT_LINEAR_Y));
  const std::vector<std::int64_t> all = {0};
  for (int run = 0; run < 2; ++run) {
    options_.store = std::make_shared<ImageStore>(1 << 20, "cut");
    options_.store->open(folder_.path(), "build");
    options_.reduced = std::make_shared<ImageFindings>();
    const ImageDataset data = dataset();
    EXPECT_EQ(data.take_remarks(all).front().count, 0);
    static_cast<void>(data.sample(0, 0));
    EXPECT_EQ(data.take_remarks(all).front().count, 1);
    EXPECT_EQ(decoded_, 1);
  }
}

TEST_F(KeptImagesTest, ImagesInMemoryAreNotWrittenToDisk) {
  options_.store = std::make_shared<ImageStore>(1 << 20, "cut");
  options_.store->open(folder_.path(), "build");
  static_cast<void>(dataset(Part::kTrain, {}, std::make_shared<ImageCache>(1 << 20)).sample(0, 0));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "pictures"));
}

TEST_F(ImageDatasetTest, ReadingASampleAllocatesNoOtherTensors) {
  const std::shared_ptr<const Dataset> trained_on = to_train_on(Box{2, 3, 40, 40});
  const ImageDataset tested = dataset(Part::kTest, Box{2, 3, 40, 40});
  for (const Dataset* const data : {trained_on.get(), static_cast<const Dataset*>(&tested)}) {
    const CountingAllocator counter;
    const std::optional<NamedTensors> sample = data->sample(0, 0);
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : *sample) bytes += tensor.nbytes();
    EXPECT_EQ(counter.peak_bytes(), static_cast<std::int64_t>(bytes));
  }
}

TEST_F(ImageDatasetTest, EvaluationNeverAugments) {
  const Cut cut = evaluation_cut(61, 45, 24, {});
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const ImageDataset data = dataset(part);
    EXPECT_FALSE(data.describe().augmented);
    EXPECT_TRUE(image_of(data, 3).equal(pixels(apply(cut, image_, Interpolation::kBicubic))));
  }
}

TEST_F(ImageDatasetTest, TrainingAugmentsAnyPart) {
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const auto data = dataset(part).for_training();
    EXPECT_TRUE(data->describe().augmented);
    EXPECT_TRUE(image_of(*data, 3).equal(image_of(*to_train_on(), 3)));
  }
}

TEST_F(ImageDatasetTest, ReducedDecodingGetsTheSameAugmentation) {
  Image smooth(400, 300);
  for (int y = 0; y < smooth.height; ++y) {
    for (int x = 0; x < smooth.width; ++x) {
      smooth.row(y)[3 * x] = static_cast<std::uint8_t>(x / 2);
      smooth.row(y)[3 * x + 1] = static_cast<std::uint8_t>(y / 2);
      smooth.row(y)[3 * x + 2] = static_cast<std::uint8_t>(255 - (x + y) / 4);
    }
  }
  write_bytes(folder_.path() / "b.jpg", encode_jpeg(smooth, 90));
  options_.augment.hue = 0;  // the hue of nearly gray colors is unstable
  auto list = std::make_shared<ImageList>();
  list->root = folder_.path();
  list->classes = {"only"};
  (*list)[Part::kTrain] = {{"b.jpg", 0, {}}};
  const auto exact = ImageDataset(list, Part::kTrain, options_, kSeed, nullptr).for_training();
  options_.decode = Decode::kFast;
  const auto fast = ImageDataset(list, Part::kTrain, options_, kSeed, nullptr).for_training();
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    const at::Tensor difference = (image_of(*exact, epoch) - image_of(*fast, epoch)).abs();
    EXPECT_LT(difference.mean().item<double>(), 0.04) << epoch;  // at edges next to black
    EXPECT_GT(difference.max().item<double>(), 0) << epoch;
  }
}

TEST_F(ImageDatasetTest, ImageIsShownAsTheNetworkReceivesIt) {
  const ImageDataset test = dataset(Part::kTest);
  const Image whole = decode_image(test.jpeg_of(0, 160)), small = decode_image(test.jpeg_of(0, 10));
  EXPECT_EQ(whole.width, 24);
  EXPECT_EQ(whole.height, 24);
  EXPECT_EQ(small.width, 10);
  // Normalization with mean 0 and standard deviation 1 only divides by 255; JPEG blurs within its
  // blocks.
  const at::Tensor pixels = test.sample(0, 0)->at("image");
  double shown = 0;
  for (const std::uint8_t value : whole.pixels) shown += value / 255.0;
  EXPECT_NEAR(shown / (3 * 24 * 24), pixels.mean().item<double>(), 0.02);
}

}  // namespace
}  // namespace stages
