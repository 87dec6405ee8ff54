#include "stages/train/balanced_samples.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/forwarded_dataset.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using testing::Each;

/// 20 samples: 14 of class 0, 4 of class 1 and 2 of class 2.
std::shared_ptr<TinyDataset> unbalanced() {
  auto data = std::make_shared<TinyDataset>(20);
  for (std::int64_t i = 0; i < 20; ++i) data->relabeled[i] = i < 14 ? 0 : i < 18 ? 1 : 2;
  return data;
}

std::vector<std::int64_t> indices(const SampleOrder& order) {
  std::vector<std::int64_t> all;
  for (std::int64_t place = 0; place < order.size(); ++place) all.push_back(order[place]);
  return all;
}

TEST(BalancedSamples, EpochHasEqualClassCountsAndTheSameSize) {
  const BalancedSamples samples(unbalanced());
  const std::vector<std::int64_t> labels = samples.labels();
  std::map<std::int64_t, int> drawn;
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    std::map<std::int64_t, int> of_epoch;
    const auto order = indices(samples.epoch_order(5, epoch));
    EXPECT_EQ(order.size(), 20u);
    for (const std::int64_t index : order) {
      ++of_epoch[labels[static_cast<std::size_t>(index % 20)]];
      ++drawn[index % 20];
    }
    for (const auto& [label, count] : of_epoch)
      EXPECT_TRUE(count == 6 || count == 7) << label << " " << count;
  }
  // 120 draws: 40 of each class. Within a class, the numbers of draws of any two samples differ by
  // at most one.
  std::map<std::int64_t, std::set<int>> counts;
  for (const auto& [index, count] : drawn)
    counts[labels[static_cast<std::size_t>(index)]].insert(count);
  EXPECT_THAT(counts[0], testing::ElementsAre(2, 3));
  EXPECT_THAT(counts[1], testing::ElementsAre(10));
  EXPECT_THAT(counts[2], testing::ElementsAre(20));
}

TEST(BalancedSamples, RepeatedDrawsHaveTheirOwnIndices) {
  const BalancedSamples samples(unbalanced());
  const auto order = indices(samples.epoch_order(5, 3));
  EXPECT_EQ(std::set(order.begin(), order.end()).size(), order.size());
  EXPECT_THAT(order, Each(testing::Ge(0)));
  EXPECT_EQ(samples.sample_name(18 + 2 * 20), "point18");
  EXPECT_EQ(samples.sample(3, 18 + 20)->at("label").item<std::int64_t>(), 2);
}

/// Records the epochs for which its samples are requested.
class Asked final : public ForwardedDataset {
 public:
  Asked() : ForwardedDataset(unbalanced()) {}
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    EXPECT_TRUE(seen.emplace(epoch, index).second) << "the same augmentation twice";
    return inner_->sample(epoch, index);
  }
  mutable std::set<std::pair<std::int64_t, std::int64_t>> seen;
};

TEST(BalancedSamples, EveryDrawIsAugmentedDifferently) {
  const BalancedSamples samples(std::make_shared<Asked>());
  for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
    for (const std::int64_t index : indices(samples.epoch_order(1, epoch)))
      samples.sample(epoch, index);
  }
}

TEST(BalancedSamples, OrderDependsOnlyOnSeedAndEpoch) {
  const BalancedSamples samples(unbalanced()), again(unbalanced());
  EXPECT_EQ(indices(samples.epoch_order(5, 3)), indices(again.epoch_order(5, 3)));
  EXPECT_NE(indices(samples.epoch_order(5, 3)), indices(samples.epoch_order(5, 4)));
  EXPECT_NE(indices(samples.epoch_order(5, 3)), indices(samples.epoch_order(6, 3)));
}

TEST(BalancedSamples, CaptionsAreKept) {
  const auto data = unbalanced();
  data->has_captions = true;
  const BalancedSamples samples(data);
  EXPECT_EQ(samples.describe().captions, data->describe().classes);
  EXPECT_EQ(samples.captions(), data->labels());
  EXPECT_EQ(samples.sample(0, 18 + 20)->at("caption").item<std::int64_t>(), 2);
}

}  // namespace
}  // namespace stages
