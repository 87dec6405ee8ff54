#include <algorithm>
#include <iterator>
#include <ostream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/shapes.h"
#include "stages/stages.h"
#include "tests/support/durable_storage.h"
#include "tests/support/folder_contents.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {

inline void PrintTo(const MadeDataset& dataset, std::ostream* out) { *out << dataset.name; }

namespace {

namespace fs = std::filesystem;

/// The properties of every maker of a dataset in a published layout.
class MakePublished : public testing::TestWithParam<MadeDataset> {
 protected:
  runner::Diagnostics failure(const MadeImages& images) const {
    return refusals_of([&] { GetParam().make(folder_ / "a", images, {}); });
  }
  DrawingFolder folder_;
};

TEST_P(MakePublished, EqualOptionsGiveEqualBytes) {
  const MadeImages images{.classes = 5, .per_class = 4, .size = 24, .seed = 5};
  GetParam().make(folder_ / "a", images, {});
  GetParam().make(folder_ / "b/", images, {});
  GetParam().make(folder_ / "c", {.classes = 5, .per_class = 4, .size = 24, .seed = 6}, {});
  EXPECT_EQ(contents_of(folder_ / "a"), contents_of(folder_ / "b"));
  EXPECT_NE(contents_of(folder_ / "a"), contents_of(folder_ / "c"));
}

TEST_P(MakePublished, FilesAreOnDiskBeforeTheyAreRenamed) {
  DurableStorage storage;
  GetParam().make(folder_ / "a", {.classes = 3, .per_class = 4, .size = 24}, {.storage = &storage});
  EXPECT_EQ(storage.renamed, 1);
  EXPECT_THAT(storage.early, testing::IsEmpty());
  EXPECT_TRUE(storage.has_flushed_the_latest_name());
}

TEST_P(MakePublished, CancellationLeavesNothingBehind) {
  std::int64_t made = 0;
  const MakeCallbacks callbacks{.progress = [&](std::int64_t done, std::int64_t) { made = done; },
                                .canceled = [&] { return made == 3; }};
  EXPECT_THROW(
      GetParam().make(folder_ / "a", {.classes = 3, .per_class = 4, .size = 16}, callbacks),
      runner::Canceled);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_P(MakePublished, OverwritingAndImpossibleCountsAreRejected) {
  folder_.add("a/mine.jpg");
  EXPECT_REFUSED(failure({.classes = 3, .per_class = 4, .size = 16}), kFolderExists, "/root");
  fs::remove_all(folder_ / "a");
  EXPECT_REFUSED(failure({.classes = 25}), kNotAllowedValue, "/make/classes");
  EXPECT_REFUSED(failure({.classes = 3, .per_class = 0}), kNotAllowedValue, "/make",
                 "0 images of 64");
}

/// All makers except the one for plain class folders, which has its own test.
std::vector<MadeDataset> published_datasets() {
  std::vector<MadeDataset> published;
  std::ranges::copy_if(all_made_datasets(), std::back_inserter(published),
                       [](const MadeDataset& one) { return one.name != "image_folder"; });
  return published;
}

INSTANTIATE_TEST_SUITE_P(All, MakePublished, testing::ValuesIn(published_datasets()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stages
