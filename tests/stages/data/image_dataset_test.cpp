#include "stages/data/image_dataset.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

constexpr std::uint64_t kSeed = 11;

/// One picture in each part, with and without a box.
class ImageDatasetTest : public testing::Test {
 protected:
  ImageDatasetTest() {
    write_bytes(folder_.path() / "a.png", encode_png(picture_.width, picture_.height, picture_.pixels.data()));
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

  ImageDataset dataset(Part part = Part::kTrain, std::optional<Box> box = {}, std::shared_ptr<ImageCache> cache = {}) {
    auto list = std::make_shared<ImageList>();
    list->root = folder_.path();
    list->classes = {"only"};
    (*list)[part] = {{"a.png", 0, box}};
    return {list, part, options_, kSeed, cache};
  }
  /// As a training sees it.
  std::shared_ptr<const Dataset> to_train_on(std::optional<Box> box = {}, std::shared_ptr<ImageCache> cache = {}) {
    return dataset(Part::kTrain, box, std::move(cache)).for_training();
  }

  at::Tensor pixels(const Image& image) {
    const at::Tensor result = torch::empty({3, image.height, image.width});
    Normalization(options_.mean, options_.standard_deviation).write(image, false, result.data_ptr<float>());
    return result;
  }

  PictureFolder folder_;
  Image picture_ = picture(61, 45, 4);
  ImageDatasetOptions options_;
};

at::Tensor image_of(const Dataset& data, std::int64_t epoch) { return data.sample(epoch, 0)->at("image"); }

/// What the dataset draws for its first picture, `width` x `height`.
std::pair<Cut, PictureChange> drawn_for(const ImageDatasetOptions& options, std::int64_t epoch, int width, int height) {
  Random random({kSeed, static_cast<std::uint64_t>(epoch), 0});
  const Cut cut = training_cut(width, height, options.image_size, options.resize, options.augment, random);
  return {cut, drawn_change(options.augment, cut.mirrored, random)};
}

TEST_F(ImageDatasetTest, ChangesTheWholePictureBeforeItIsResized) {
  const auto data = to_train_on();
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    const auto [cut, change] = drawn_for(options_, epoch, 61, 45);
    EXPECT_TRUE(image_of(*data, epoch).equal(pixels(apply(cut, changed(picture_, change), Interpolation::kBicubic))));
  }
}

TEST_F(ImageDatasetTest, ChangesARandomCropOnceItIsResized) {
  options_.augment.random_resized_crop = RandomResizedCrop{};
  const auto data = to_train_on();
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    const auto [cut, change] = drawn_for(options_, epoch, 61, 45);
    EXPECT_TRUE(image_of(*data, epoch).equal(pixels(changed(apply(cut, picture_, Interpolation::kBicubic), change))));
  }
}

TEST_F(ImageDatasetTest, PlacesFirstChangesWhatIsResized) {
  options_.change_order = ChangeOrder::kPlacesFirst;
  const auto data = to_train_on();
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    auto [cut, change] = drawn_for(options_, epoch, 61, 45);
    change.steps = ChangeOrder::kPlacesFirst;
    EXPECT_TRUE(image_of(*data, epoch).equal(pixels(changed(apply(cut, picture_, Interpolation::kBicubic), change))));
  }
}

TEST_F(ImageDatasetTest, PreprocessesAtFullSizeInEveryPart) {
  options_.preprocessing.clahe = Clahe{};
  options_.augment = {};
  const Image made = preprocessed(picture_, options_.preprocessing);
  const at::Tensor expected = pixels(apply(evaluation_cut(61, 45, 24, {}), made, Interpolation::kBicubic));
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const auto cache = std::make_shared<ImageCache>(1 << 20);
    const ImageDataset data = dataset(part, {}, cache);
    for (int again = 0; again < 2; ++again) EXPECT_TRUE(image_of(data, again).equal(expected));
  }
  options_.preprocessing = {};
  EXPECT_FALSE(image_of(dataset(Part::kTest), 0).equal(expected));
}

TEST_F(ImageDatasetTest, OfAPictureWithABoxChangesTheBoxAlone) {
  const auto data = to_train_on(Box{10, 5, 40, 30});
  Image part(40, 30);
  for (int row = 0; row < 30; ++row) std::copy_n(picture_.row(row + 5) + 30, 120, part.row(row));
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    const auto [cut, change] = drawn_for(options_, epoch, 40, 30);
    EXPECT_TRUE(image_of(*data, epoch).equal(pixels(apply(cut, changed(part, change), Interpolation::kBicubic))));
  }
}

TEST_F(ImageDatasetTest, ChangesAreNewInEveryEpochAndTheSameFromTheCache) {
  const auto cache = std::make_shared<ImageCache>(1 << 20);
  const auto data = to_train_on(), cached = to_train_on({}, cache);
  EXPECT_FALSE(image_of(*data, 0).equal(image_of(*data, 1)));
  for (const std::int64_t epoch : {0, 1, 0}) EXPECT_TRUE(image_of(*cached, epoch).equal(image_of(*data, epoch)));
  EXPECT_TRUE(data->describe().augmented);
}

TEST_F(ImageDatasetTest, ReadingASampleTakesNoTensorsBesideIt) {
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

TEST_F(ImageDatasetTest, WhoDoesNotTrainSeesNoPartChanged) {
  const Cut cut = evaluation_cut(61, 45, 24, {});
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const ImageDataset data = dataset(part);
    EXPECT_FALSE(data.describe().augmented);
    EXPECT_TRUE(image_of(data, 3).equal(pixels(apply(cut, picture_, Interpolation::kBicubic))));
  }
}

TEST_F(ImageDatasetTest, WhoTrainsSeesAnyPartChanged) {
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const auto data = dataset(part).for_training();
    EXPECT_TRUE(data->describe().augmented);
    EXPECT_TRUE(image_of(*data, 3).equal(image_of(*to_train_on(), 3)));
  }
}

TEST_F(ImageDatasetTest, APictureDecodedSmallerIsChangedAlike) {
  Image smooth(400, 300);
  for (int y = 0; y < smooth.height; ++y) {
    for (int x = 0; x < smooth.width; ++x) {
      smooth.row(y)[3 * x] = static_cast<std::uint8_t>(x / 2);
      smooth.row(y)[3 * x + 1] = static_cast<std::uint8_t>(y / 2);
      smooth.row(y)[3 * x + 2] = static_cast<std::uint8_t>(255 - (x + y) / 4);
    }
  }
  write_bytes(folder_.path() / "b.jpg", encode_jpeg(smooth, 90));
  options_.augment.hue = 0;  // which is far another number where a colour is nearly grey
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

}  // namespace
}  // namespace stages
