#include "stages/train/validation.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/tiny_step.h"

namespace stages {
namespace {

std::vector<std::int64_t> listed(const SampleOrder& order) {
  std::vector<std::int64_t> all;
  for (std::int64_t place = 0; place < order.size(); ++place) all.push_back(order[place]);
  return all;
}

std::vector<std::int64_t> counted(std::int64_t size) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TinyStep coupled(Coupling coupling) {
  TinyStep step;
  step.coupling = coupling;
  return step;
}

/// A loss over groups of four samples.
class OverGroups final : public TinyStep {
 public:
  std::vector<LossTerm> terms() const override {
    return {{"alone", Coupling::kPerSample},
            {"together", Coupling::kPerGroup, false, /*samples_in_group=*/4}};
  }
};

TEST(ValidationOrder, ComparedSamplesHaveAFixedShuffledOrder) {
  const TinyStep over_batches = coupled(Coupling::kWholeBatch);
  const OverGroups over_groups;
  for (const TrainingStep* step :
       std::initializer_list<const TrainingStep*>{&over_batches, &over_groups}) {
    const std::vector<std::int64_t> order = listed(validation_order(*step, 60));
    EXPECT_NE(order, counted(60));
    EXPECT_TRUE(std::ranges::is_permutation(order, counted(60)));
    EXPECT_EQ(order, listed(validation_order(*step, 60)));
    // With six consecutive classes, a batch of twelve neighbors has only two.
    std::vector<std::int64_t> classes;
    for (std::size_t i = 0; i < 12; ++i) classes.push_back(order[i] / 10);
    std::ranges::sort(classes);
    EXPECT_GT(std::unique(classes.begin(), classes.end()) - classes.begin(), 3);
  }
}

TEST(ValidationOrder, IndependentSamplesKeepTheirOrder) {
  for (const Coupling coupling : {Coupling::kPerSample, Coupling::kPerGroup})
    EXPECT_EQ(listed(validation_order(coupled(coupling), 60)), counted(60));
}

TEST(ValidationBatchSize, ComparedSamplesAreNotSplit) {
  const StepPlan whole, parts{.micro_batch = 4}, passes{.micro_batch = 4, .two_pass = true};
  for (const StepPlan& plan : {whole, parts, passes})
    EXPECT_EQ(validation_batch_size(OverGroups(), plan, 16), 16);
  EXPECT_EQ(validation_batch_size(TinyStep(), whole, 16), 16);
  EXPECT_EQ(validation_batch_size(TinyStep(), parts, 16), 4);
}

}  // namespace
}  // namespace stages
