#include "runner/parent/sweep/slot_memory.h"

#include <gmock/gmock.h>

#include "runner/parent/config/yaml_reader.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
NamedBytes whole_machine() { return {"the machine's memory", 16 * kGiB}; }

/// Trials with recipes that contain their plans: `need`, in GiB, and `device`.
class SlotMemoryTest : public testing::Test {
 protected:
  Result<TrialPeak> plan(const Value& recipe) {
    ++plans_;
    if (const Value* const why = recipe.find("mistake"))
      return Diagnostic{ErrorCode::kBadSweep, {}, "", *why->text(), ""};
    TrialPeak peak{.memory = whole_machine()};
    if (const Value* const need = recipe.find("need"))
      peak.bytes = std::get<std::int64_t>(need->data) * kGiB;
    if (const Value* const on = recipe.find("device")) peak.device = *on->text();
    if (const Value* const ranks = recipe.find("ranks"))
      peak.gpus = static_cast<std::size_t>(std::get<std::int64_t>(ranks->data));
    if (const Value* const open = recipe.find("open")) peak.unplanned = *open->text();
    return peak;
  }
  void add(std::uint64_t trial, const std::string& recipe) {
    Sources sources;
    memory_.add(trial, *read_yaml(sources.add("a.yaml", recipe)));
  }
  int plans_ = 0;
  SlotMemory memory_{[this](const Value& recipe) { return plan(recipe); }, 2};
};

TEST_F(SlotMemoryTest, ConcurrentTrialsMustFitTogether) {
  add(0, "need: 3");
  add(1, "need: 9");
  add(2, "need: 8");
  EXPECT_THAT(memory_.check(1), IsEmpty());
  const Diagnostics errors = memory_.check(2);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(errors[0].message,
            "2 trials at a time may need 17.00 GiB of the machine's memory, 16.00 GiB: the plans "
            "of trials 1, 2 together");
  EXPECT_EQ(errors[0].help,
            "--slots 1 runs them one after another; use smaller batches, or memory=auto with "
            "memory.budget=8192MiB");
  EXPECT_EQ(memory_.fitting(3), 1);
}

TEST_F(SlotMemoryTest, NumberOfTrialsThatFitIsReportedWithItsBytes) {
  for (int trial = 0; trial < 6; ++trial) add(static_cast<std::uint64_t>(trial), "need: 4");
  EXPECT_THAT(memory_.check(4), IsEmpty()) << "to the last byte";
  EXPECT_EQ(memory_.fitting(9), 4);
  EXPECT_THAT(memory_.check(5).at(0).help, testing::StartsWith("--slots 4 fits; "));
  EXPECT_EQ(memory_.text(2),
            "together they need at most 8.00 GiB of the machine's memory, 16.00 GiB");
}

TEST_F(SlotMemoryTest, EndedTrialNeedsNoMemory) {
  add(0, "need: 9");
  add(1, "need: 9");
  EXPECT_EQ(memory_.fitting(2), 1);
  memory_.forget(0);
  EXPECT_EQ(memory_.fitting(2), 2) << "only the other trial has a plan";
}

TEST_F(SlotMemoryTest, TrialsThatDifferOnlyInSettingsIrrelevantToPlansShareAPlan) {
  add(0, "{seed: 1, name: a, run: {dir: a}, need: 1, train: {optimizer: {learning_rate: 0.1}}}");
  add(1, "{seed: 2, name: b, run: {dir: b}, need: 1, train: {optimizer: {learning_rate: 1}}}");
  EXPECT_EQ(plans_, 1);
  add(2, "{seed: 2, need: 1, train: {optimizer: {learning_rate: 0}}}");
  EXPECT_EQ(plans_, 2) << "a rate of 0 may disable something";
  add(3, "{seed: 2, need: 1, train: {batch_size: 2, optimizer: {learning_rate: 1}}}");
  EXPECT_EQ(plans_, 3);
  add(4, "{seed: 2, need: 1, train: {seed: 3, batch_size: 2, optimizer: {learning_rate: 1}}}");
  EXPECT_EQ(plans_, 4) << "which is a different seed";
}

TEST_F(SlotMemoryTest, EachTrialNeedsItsOwnGpuUnlessARecipeSpecifiesOne) {
  for (std::uint64_t trial = 0; trial < 3; ++trial) add(trial, "{need: 12, device: cuda}");
  EXPECT_THAT(memory_.check(2), IsEmpty()) << "each has its own";
  EXPECT_EQ(memory_.text(2), "each on its own GPU");
  const Diagnostics errors = memory_.check(3);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "3 trials at a time need a GPU each, and there are 2");
  EXPECT_EQ(errors[0].help, "--slots 2 fits");
}

TEST_F(SlotMemoryTest, EachRankOfATrialNeedsItsOwnGpu) {
  add(0, "{need: 12, device: cuda}");
  add(1, "{need: 12, device: cuda}");
  EXPECT_EQ(memory_.fitting(2), 2);
  add(2, "{need: 1, device: cuda, ranks: 2}");
  EXPECT_EQ(memory_.fitting(2), 1)
      << "the trial with two ranks may run at the same time as another";
  const Diagnostics errors = memory_.check(2);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message,
            "2 trials at a time need 3 GPUs together (device.count), and there are 2");
  EXPECT_EQ(memory_.text(1), "each on its own GPUs");
  memory_.forget(2);
  EXPECT_EQ(memory_.fitting(2), 2);
}

TEST_F(SlotMemoryTest, TrialsOnANamedGpuShareIt) {
  add(0, "{need: 12, device: 'cuda:1'}");
  add(1, "{need: 12, device: 'cuda:0'}");
  EXPECT_THAT(memory_.check(2), IsEmpty()) << "on two";
  add(2, "{need: 5, device: 'cuda:1'}");
  EXPECT_THAT(memory_.check(2).at(0).message,
              HasSubstr("17.00 GiB of the machine's memory, 16.00 GiB of cuda:1: the "
                        "plans of trials 0, 2 together"));
}

TEST_F(SlotMemoryTest, UnplannedMemoryIsReportedAndNotCounted) {
  add(0, "mistake: there is no folder 'nowhere'");
  add(1, "{mistake: there is no folder 'nowhere', batch: 2}");
  add(2, "{need: 9, open: 'train.1: its data are made'}");
  EXPECT_THAT(memory_.check(3), IsEmpty());
  EXPECT_THAT(memory_.uncounted(), ElementsAre("trial 0 cannot be planned: there is no folder "
                                               "'nowhere', and 1 more; this memory is "
                                               "not counted",
                                               "trial 2 is only partly planned: train.1: its "
                                               "data are made; this memory is not counted"));
}

TEST_F(SlotMemoryTest, TrialsWithoutMemoryAreNotReported) {
  add(0, "need: 0");
  add(1, "need: 0");
  EXPECT_EQ(memory_.fitting(2), 2);
  EXPECT_EQ(memory_.text(2), "");
  EXPECT_THAT(memory_.uncounted(), IsEmpty());
}

}  // namespace
}  // namespace runner
