#include "stages/data/image_folder.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/image.h"
#include "stages/data/image_list.h"
#include "stages/data/shapes.h"
#include "stages/data/weighted_sums.h"
#include "tests/support/durable_storage.h"
#include "tests/support/folder_contents.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

runner::Diagnostics failure(const fs::path& folder, const MadeImages& images) {
  return refusals_of([&] { make_image_folder(folder, images); });
}

TEST(MakeImageFolder, MakesClassFoldersOfJpegs) {
  const DrawingFolder folder;
  std::int64_t last = 0, all = 0;
  make_image_folder(folder / "new/shapes", {.classes = 3, .per_class = 2, .size = 40, .seed = 5},
                    {.progress =
                         [&](std::int64_t done, std::int64_t count) {
                           last = done;
                           all = count;
                         },
                     .canceled = {}});
  const auto list = list_images(folder / "new/shapes", false);
  ASSERT_TRUE(list);
  EXPECT_THAT(list->classes,
              testing::ElementsAre("disc", "stripes_horizontal", "stripes_vertical"));
  EXPECT_EQ((*list)[Part::kTrain].size(), 6u);
  EXPECT_EQ((*list)[Part::kTrain].front().name, "disc/00000.jpg");
  EXPECT_EQ(read_image_header(file_bytes(folder / "new/shapes/disc/00001.jpg")).width, 40);
  EXPECT_EQ(last, 6);
  EXPECT_EQ(all, 6);
}

TEST(MakeImageFolder, EqualOptionsGiveEqualBytes) {
  const DrawingFolder folder;
  const MadeImages images{.classes = 24, .per_class = 1, .size = 24, .seed = 5};
  make_image_folder(folder / "a", images);
  make_image_folder(folder / "b/", images);
  make_image_folder(folder / "c", {.classes = 24, .per_class = 1, .size = 24, .seed = 6});
  EXPECT_EQ(contents_of(folder / "a"), contents_of(folder / "b"));
  EXPECT_NE(contents_of(folder / "a"), contents_of(folder / "c"));
  EXPECT_EQ(contents_of(folder / "a").size(), 25u);
}

TEST(MakeImageFolder, FilesAreOnDiskBeforeTheyAreRenamed) {
  const DrawingFolder folder;
  DurableStorage storage;
  make_image_folder(folder / "a", {.classes = 2, .per_class = 3, .size = 16},
                    {.storage = &storage});
  EXPECT_EQ(storage.renamed, 1);
  EXPECT_THAT(storage.early, testing::IsEmpty());
  EXPECT_TRUE(storage.has_flushed_the_latest_name());
}

TEST(MakeImageFolder, NonEmptyFolderIsLeftAlone) {
  const DrawingFolder folder;
  folder.add("full/a.jpg");
  const auto before = contents_of(folder.path());
  EXPECT_REFUSED(failure(folder / "full", {}), kFolderExists, "/root", "full");
  EXPECT_REFUSED(failure(folder / "full/a.jpg", {}), kFolderExists, "/root");
  EXPECT_EQ(contents_of(folder.path()), before);
  fs::create_directory(folder / "empty");
  EXPECT_THAT(failure(folder / "empty", {.classes = 1, .per_class = 1, .size = 16}),
              testing::IsEmpty());
}

TEST(MakeImageFolder, MoreClassesThanShapesAreRejected) {
  const DrawingFolder folder;
  EXPECT_REFUSED(failure(folder / "a", {.classes = 25}), kNotAllowedValue, "/make/classes", "25",
                 "24");
  EXPECT_REFUSED(failure(folder / "a", {.classes = 2, .per_class = 0}), kNotAllowedValue, "/make",
                 "0 images of 64", "8 to 4096");
}

TEST(MakeImageFolder, CancellationLeavesNothingBehind) {
  const DrawingFolder folder;
  std::int64_t made = 0;
  const MakeCallbacks callbacks{.progress = [&](std::int64_t done, std::int64_t) { made = done; },
                                .canceled = [&] { return made == 3; }};
  EXPECT_THROW(
      make_image_folder(folder / "a", {.classes = 2, .per_class = 2, .size = 16}, callbacks),
      runner::Canceled);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(MakeImageFolder, DetectsChangedOptions) {
  const DrawingFolder folder;
  const MadeImages images{.classes = 2, .per_class = 1, .size = 16, .seed = 1};
  make_image_folder(folder / "a", images);
  EXPECT_FALSE(differs(folder / "a", images));
  const auto other = differs(folder / "a", {.classes = 3, .per_class = 1, .size = 16, .seed = 1});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->code, runner::ErrorCode::kOptionConflict);
  EXPECT_EQ(
      other->message,
      "'" + (folder / "a").string() +
          R"(' was created with different parameters: {"version":1,"classes":2,"per_class":1,"size":16,"seed":1})");
  folder.add("b/x/a.jpg");
  ASSERT_TRUE(differs(folder / "b", images));
  EXPECT_EQ(differs(folder / "b", images)->code, runner::ErrorCode::kFolderExists);
}

/// Returns the accuracy of a linear classifier that is trained on half of the images and tested on
/// the others.
double accuracy_of_linear_classifier(at::Tensor features, const at::Tensor& labels,
                                     std::int64_t classes) {
  const torch::NoGradGuard no_graph;
  const int threads = torch::get_num_threads();
  torch::set_num_threads(
      1);  // the matrices are so small that threads would only wait for each other
  const std::int64_t half = features.size(0) / 2;
  features = (features - features.mean(0)) / (features.std(0) + 1e-6);
  const at::Tensor taught = features.slice(0, 0, half), asked = features.slice(0, half);
  const at::Tensor wanted = torch::one_hot(labels.slice(0, 0, half), classes).to(torch::kFloat);
  at::Tensor weights = torch::zeros({features.size(1), classes}), bias = torch::zeros({classes});
  for (int step = 0; step < 150; ++step) {
    const at::Tensor error = (taught.matmul(weights) + bias).softmax(1) - wanted;
    weights -= 0.3 * (taught.t().matmul(error) / half + 1e-3 * weights);
    bias -= 0.3 * error.mean(0);
  }
  const at::Tensor right = (asked.matmul(weights) + bias).argmax(1).eq(labels.slice(0, half));
  torch::set_num_threads(threads);
  return right.to(torch::kFloat).mean().item<double>();
}

struct Drawn {
  std::vector<Image> pictures;
  at::Tensor labels;
};

Drawn drawn(std::int64_t classes, std::int64_t per_class) {
  Drawn result;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < per_class; ++i) {
    for (std::int64_t label = 0; label < classes; ++label) {
      const Random random({1, static_cast<std::uint64_t>(label), static_cast<std::uint64_t>(i)});
      result.pictures.push_back(draw_shape(static_cast<std::size_t>(label), 64, random));
      labels.push_back(label);
    }
  }
  result.labels = torch::tensor(labels);
  return result;
}

/// Returns histograms of 16 bins per channel, and of 4 x 4 x 4 bins of colors.
at::Tensor color_histogram(const Drawn& images) {
  const at::Tensor result =
      torch::zeros({static_cast<std::int64_t>(images.pictures.size()), 16 * 3 + 64});
  float* counts = result.data_ptr<float>();
  for (const Image& image : images.pictures) {
    for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
      const std::uint8_t* pixel = &image.pixels[i];
      for (int channel = 0; channel < 3; ++channel) ++counts[16 * channel + pixel[channel] / 16];
      ++counts[48 + pixel[0] / 64 * 16 + pixel[1] / 64 * 4 + pixel[2] / 64];
    }
    counts += result.size(1);
  }
  return result;
}

/// Returns 16 x 16 mean brightness values, centered and with equal contrast.
at::Tensor thumbnails(const Drawn& images) {
  std::vector<at::Tensor> all;
  for (const Image& image : images.pictures) {
    const Image small = resize(image, 16, 16, Interpolation::kBilinear);
    all.push_back(torch::tensor(at::ArrayRef<std::uint8_t>(small.pixels), torch::kFloat)
                      .reshape({256, 3})
                      .mean(1));
  }
  const at::Tensor brightness = torch::stack(all);
  return (brightness - brightness.mean(1, true)) / brightness.std(1, true, true);
}

TEST(Shapes, ColorsAloneDoNotDistinguishClasses) {
  for (const std::int64_t classes : {8, 24}) {
    const Drawn images = drawn(classes, 1000 / classes);
    const double accuracy =
        accuracy_of_linear_classifier(color_histogram(images), images.labels, classes);
    RecordProperty("by_color_" + std::to_string(classes), std::to_string(accuracy));
    EXPECT_LT(accuracy, 1.5 / static_cast<double>(classes));
  }
}

TEST(Shapes, ShapesDistinguishClasses) {
  const Drawn images = drawn(24, 40);
  EXPECT_GT(accuracy_of_linear_classifier(thumbnails(images), images.labels, 24), 0.8);
}

}  // namespace
}  // namespace stages
