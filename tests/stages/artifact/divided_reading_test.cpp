#include "stages/artifact/divided_reading.h"

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

/// Images of more than kSmallRow bytes; all elements of an image are its sample's index plus 1.
class NumberedImages : public Dataset {
 public:
  DatasetDescription describe() const override {
    return {.size = size,
            .tensors = {{"image", {3, 20, 20}, at::kFloat},
                        {"label", {}, at::kLong},
                        {"target", {targets}, at::kFloat}},
            .classes = {}};
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    {
      const std::lock_guard lock(mutex_);
      read.push_back(index);
    }
    if (skipped.contains(index)) return std::nullopt;
    if (broken.contains(index))
      throw runner::StageError(runner::ErrorCode::kCorruptImage, sample_name(index));
    return NamedTensors{{"image", torch::full({3, 20, 20}, static_cast<double>(index + 1))},
                        {"label", torch::scalar_tensor(index * 10, at::kLong)},
                        {"target", torch::full({targets}, -0.0 - static_cast<double>(index))}};
  }
  std::string sample_name(std::int64_t index) const override {
    return "sample " + std::to_string(index);
  }
  LoaderOptions loader() const override { return {.workers = workers}; }

  std::set<std::int64_t> skipped, broken;
  std::int64_t size = 11, workers = 0, targets = 2;
  mutable std::vector<std::int64_t> read;

 private:
  mutable std::mutex mutex_;
};

struct DividedCase {
  int ranks = 2;
  std::int64_t in_group = 1, workers = 0, batch_size = 4;
  RowsOfOthers needed = RowsOfOthers::kSmall;
  std::set<std::int64_t> skipped = {};
  std::int64_t targets = 2, samples = 11;
};

std::vector<Batch> batches_of(const NumberedImages& data, std::int64_t batch_size,
                              PartialReading partial = {}) {
  // Returns a pointer that does not own the dataset; the test keeps it alive.
  const std::shared_ptr<const Dataset> borrowed(std::shared_ptr<void>(), &data);
  Loader loader(borrowed, sequential_order(data.size), batch_size, 0,
                /*drop_last=*/false, 0, std::move(partial));
  std::vector<Batch> all;
  while (auto batch = loader.next()) all.push_back(*std::move(batch));
  return all;
}

/// Expects each rank to get the same batches as a single process, with only the images of its
/// share. Returns the samples that each rank has read, in ascending order.
std::vector<std::vector<std::int64_t>> expect_divided(const DividedCase& given) {
  NumberedImages whole;
  whole.skipped = given.skipped;
  whole.targets = given.targets;
  whole.size = given.samples;
  const std::vector<Batch> expected = batches_of(whole, given.batch_size);
  std::vector<NumberedImages> data(static_cast<std::size_t>(given.ranks));
  run_as_ranks(given.ranks, [&](const runner::RankOfRun& own) {
    NumberedImages& images = data[static_cast<std::size_t>(own.rank)];
    images.skipped = given.skipped;
    images.targets = given.targets;
    images.size = given.samples;
    images.workers = given.workers;
    const std::vector<Batch> batches =
        batches_of(images, given.batch_size, divided_reading(own, given.in_group, given.needed));
    ASSERT_EQ(batches.size(), expected.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const Batch &batch = batches[i], &right = expected[i];
      EXPECT_EQ(batch.indices, right.indices);
      EXPECT_TRUE(batch["label"].equal(right["label"]));
      EXPECT_TRUE(batch["target"].view(at::kInt).equal(right["target"].view(at::kInt)))
          << "the same bits";
      const Share share = share_of(batch.units(), given.in_group, own.rank, own.size);
      const auto part = [&](const Batch& of) {
        return of["image"].narrow(0, share.begin, share.units());
      };
      EXPECT_TRUE(part(batch).equal(part(right))) << own.rank << " of " << own.size << ", " << i;
      if (given.needed == RowsOfOthers::kAll) EXPECT_TRUE(batch["image"].equal(right["image"]));
    }
  });
  std::vector<std::vector<std::int64_t>> read;
  for (NumberedImages& one : data) {
    std::ranges::sort(one.read);
    read.push_back(one.read);
  }
  return read;
}

TEST(DividedReading, EachRankReadsItsShare) {
  for (const std::int64_t workers : {0, 3}) {
    const auto read = expect_divided({.workers = workers});
    EXPECT_THAT(read[0], testing::ElementsAre(0, 1, 4, 5, 8, 9));
    EXPECT_THAT(read[1], testing::ElementsAre(2, 3, 6, 7, 10));
  }
}

TEST(DividedReading, SharesBeginBetweenGroups) {
  const auto read = expect_divided({.in_group = 2, .batch_size = 6});
  EXPECT_THAT(read[0], testing::ElementsAre(0, 1, 2, 3, 6, 7));
  EXPECT_THAT(read[1], testing::ElementsAre(4, 5, 8, 9, 10));
}

TEST(DividedReading, MoreRanksThanSamplesAreSupported) {
  const auto read = expect_divided({.ranks = 5});
  EXPECT_THAT(read[3], testing::ElementsAre(3, 7, 8)) << "8: a unit that another rank counts";
  EXPECT_THAT(read[4], testing::ElementsAre(0, 4, 8));
}

TEST(DividedReading, AllRowsAreReadIfNeeded) {
  const auto read = expect_divided({.ranks = 3, .needed = RowsOfOthers::kAll});
  EXPECT_THAT(read[2], testing::ElementsAre(3, 7, 10));
}

TEST(DividedReading, SmallRowsOfALargeBatchAreRead) {
  const std::int64_t samples = ShortMessages::kAllBytes / kSmallRow + 10;
  const auto read = expect_divided({.batch_size = samples, .targets = 1000, .samples = samples});
  EXPECT_EQ(read[1].front(), samples / 2);
}

// The samples that are left in the batch are redistributed.
TEST(DividedReading, SkippedSamplesShiftTheShares) {
  for (const std::int64_t workers : {0, 2}) {
    for (const std::set<std::int64_t>& skipped :
         {std::set<std::int64_t>{0}, {1, 2, 6}, {4, 5, 6, 7}, {0, 1, 2, 3, 8, 9, 10}}) {
      const auto read = expect_divided({.workers = workers, .skipped = skipped});
      EXPECT_EQ(read[0].size() + read[1].size(), 11) << "each sample is read once";
    }
  }
}

TEST(DividedReading, UnreadableSampleEndsAllRanks) {
  std::vector<NumberedImages> data(2);
  data[1].broken = {6};
  try {
    run_as_ranks(2, [&](const runner::RankOfRun& own) {
      batches_of(data[static_cast<std::size_t>(own.rank)], 4,
                 divided_reading(own, 1, RowsOfOthers::kSmall));
    });
    FAIL() << "sample 6 cannot be read";
  } catch (const runner::StageError& error) {
    EXPECT_STREQ(error.what(), "sample 6");
  }
}

}  // namespace
}  // namespace stages
