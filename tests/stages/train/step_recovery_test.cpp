// A training run that runs out of memory within a budget, and the changes to its plan.
#include "stages/train/step_recovery.h"

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/train/step_execution.h"
#include "tests/support/distance.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// A training run without its own threads, so that its memory is the same each time.
struct SteadyTraining : TinyTraining {
  SteadyTraining() {
    train_data = std::make_shared<TinyDataset>(240);
    options.batch_size = 64;  // so that activations outweigh weights
    train_data->options.workers = validation->options.workers = 0;
  }
};

std::int64_t peak_under(std::optional<std::int64_t> micro_batch) {
  SteadyTraining training;
  training.policy.micro_batch = micro_batch;
  const CountingAllocator counter;
  training.run();
  return counter.peak_bytes();
}

/// A training run with a budget that is only large enough for micro-batches.
struct ShortOfMemory : SteadyTraining {
  ShortOfMemory() {
    policy.budget = peak_under(32);
    policy.recovery.max_retries.reset();
  }
};

TEST(StepRecovery, BudgetBelowTheWholeBatchTrainsInMicroBatches) {
  SteadyTraining cut;
  ShortOfMemory short_of_memory;
  ASSERT_LT(*short_of_memory.policy.budget, peak_under(std::nullopt));
  cut.policy.micro_batch = 32;
  cut.run();
  const CountingAllocator counter;
  short_of_memory.run();
  EXPECT_TRUE(short_of_memory.flat_weights().equal(cut.flat_weights()))
      << "the first step was repeated in parts";
  EXPECT_THAT(
      short_of_memory.context.said,
      Contains(EndsWith("repeated with micro_batch 32 instead of the whole batch of 64, retry 2")));
  EXPECT_EQ(short_of_memory.context.recoveries.size(), 2) << "the plan stays the same";
  EXPECT_GT(short_of_memory.context.recoveries[1].limit, 0);
}

/// Continues a training run that had to split its batch and was stopped after step 6.
void run_on_after_a_shortage(TinyTraining& resumed) {
  ShortOfMemory stopped;
  const CountingAllocator counter;
  stopped.context.on_progress = [&](const runner::Progress& progress) {
    stopped.context.is_canceled = progress.step == 6;
  };
  EXPECT_THROW(stopped.run(), runner::Canceled);
  resumed.context.facts.resuming = true;
  std::filesystem::copy(stopped.context.node().folder, resumed.context.node().folder,
                        std::filesystem::copy_options::recursive);
  resumed.run();
  EXPECT_THAT(resumed.context.said, Contains(StartsWith("resuming after step 6 of ")));
}

TEST(StepRecovery, ResumedTrainingKeepsThePlanInForce) {
  ShortOfMemory whole, resumed;
  {
    const CountingAllocator counter;
    whole.run();
  }
  *resumed.policy.budget += 16 << 10;  // for the data read from the checkpoint
  run_on_after_a_shortage(resumed);
  EXPECT_TRUE(resumed.flat_weights().equal(whole.flat_weights()));
  EXPECT_THAT(resumed.context.said, Contains("continues with micro_batch 32 instead of the whole "
                                             "batch of 64, as chosen when memory ran out"));
  EXPECT_TRUE(resumed.context.recoveries.empty());
}

TEST(StepRecovery, PlanFromAnotherDeviceIsIgnored) {
  SteadyTraining resumed;
  resumed.context.facts.restarts.has_moved = true;
  run_on_after_a_shortage(resumed);
  EXPECT_THAT(resumed.context.said, testing::Each(testing::Not(StartsWith("continues with"))));
}

TEST(StepRecovery, PlanFromAnotherRecipeIsIgnored) {
  SteadyTraining resumed;
  resumed.policy.micro_batch = 2;
  run_on_after_a_shortage(resumed);
  EXPECT_THAT(resumed.context.said, testing::Each(testing::Not(StartsWith("continues with"))));
}

/// Covers everything between the last step of an epoch and the first of the next: reading,
/// measuring, saving.
TEST(StepRecovery, ValidationIsRepeatedBitForBitAfterOutOfMemory) {
  SteadyTraining undisturbed;
  undisturbed.options.epochs = 2;
  undisturbed.run();
  std::set<std::string> said;
  std::int64_t block = 1;
  for (;; block += block < 60 ? 1 : 23) {
    SteadyTraining spoilt;
    spoilt.options.epochs = 2;
    spoilt.policy.recovery.max_retries = 1;
    CountingAllocator counter;
    bool is_asked = false, was_refused = false;
    spoilt.context.on_progress = [&](const runner::Progress& progress) {
      if (is_asked) was_refused = !counter.will_refuse();
      is_asked =
          progress.phase == "validate" && progress.epoch == 1 && progress.step == 1 && !was_refused;
      counter.refuse(is_asked ? block : 0);
    };
    spoilt.run();
    ASSERT_TRUE(spoilt.flat_weights().equal(undisturbed.flat_weights())) << "block " << block;
    for (const char* name : {"validation/loss", "validation/accuracy"})
      ASSERT_EQ(spoilt.context.values(name), undisturbed.context.values(name))
          << name << ", block " << block;
    if (!was_refused) break;
    ASSERT_LE(spoilt.context.recoveries.size(), 1)
        << "block " << block;  // 0: the refused block was not needed
    said.insert(spoilt.context.said.begin(), spoilt.context.said.end());
  }
  EXPECT_THAT(said, Contains(AllOf(StartsWith("validation: out of memory"),
                                   EndsWith("repeating 12 rows"))));
  EXPECT_THAT(said,
              Contains(AllOf(StartsWith("reading a batch: out of memory"), EndsWith("repeated"))));
  EXPECT_GT(block, 60);
}

/// Recovery of a step under a policy, without a network.
class Recovering : public testing::Test {
 protected:
  Recovering() {
    options_.replan = [](const MemoryPolicy& failed, std::int64_t) {
      return next_plan(failed, 8, [](const MemoryPolicy&) { return true; });
    };
    options_.plan_under = [](const MemoryPolicy& policy) {
      return StepPlan{.micro_batch = policy.micro_batch.value_or(0)};
    };
    options_.units = 8;
    options_.planned = 1000;
    options_.free_now = [this] { return free_; };
    options_.good_steps = 3;
    policy_.recovery.max_retries.reset();
  }
  StepRecovery recovery() { return {policy_, execution_, options_, context_}; }
  /// Fails a step twice, and returns the micro-batch of the plan afterward.
  std::int64_t fail_twice(StepRecovery& recovery) {
    recovery.begin_step();
    EXPECT_TRUE(recovery.retries(1));
    EXPECT_TRUE(recovery.retries(1));
    return execution_.plan().micro_batch;
  }
  std::int64_t after_steps(StepRecovery& recovery, int count) {
    for (int i = 0; i < count; ++i) {
      recovery.begin_step();
      recovery.end_step(10 + i);
    }
    return execution_.plan().micro_batch;
  }
  TinyTraining training_;
  StepExecution execution_{
      training_.step,
      *training_.network,
      {{.name = "", .optimizer = SgdOptions{.learning_rate = 1}, .parameters = {}}},
      StepPlan{},
      GradientClip{},
      at::kCPU};
  StepRecovery::Options options_;
  MemoryPolicy policy_;
  RecordingContext& context_ = training_.context;
  std::int64_t free_ = 0;
};

TEST_F(Recovering, ReturnsToThePlanOnceOtherProcessesFreeMemory) {
  StepRecovery recovery = this->recovery();
  free_ = 600;
  EXPECT_EQ(fail_twice(recovery), 4);
  EXPECT_EQ(after_steps(recovery, 3), 4) << "it is not free yet";
  free_ = 1049;
  EXPECT_EQ(after_steps(recovery, 3), 4) << "with some margin";
  free_ = 1051;
  EXPECT_EQ(after_steps(recovery, 2), 4) << "not at every step";
  EXPECT_EQ(after_steps(recovery, 1), 0);
  EXPECT_EQ(context_.said.back(),
            "step 10: memory is free again: the whole batch of 8 instead of micro_batch 4, "
            "starting with the next step");
  EXPECT_EQ(context_.recoveries.back().cause, "memory is free again");
}

TEST_F(Recovering, NeverReturnsToAPlanThatFailedTwice) {
  StepRecovery recovery = this->recovery();
  free_ = 600;
  fail_twice(recovery);
  free_ = 5000;
  EXPECT_EQ(after_steps(recovery, 3), 0);
  EXPECT_EQ(fail_twice(recovery), 4);
  EXPECT_EQ(after_steps(recovery, 100), 4);
}

TEST_F(Recovering, DoesNotReturnIfMemoryWasFree) {
  StepRecovery recovery = this->recovery();
  free_ = 5000;  // the plan was wrong
  EXPECT_EQ(fail_twice(recovery), 4);
  EXPECT_EQ(after_steps(recovery, 100), 4);
}

TEST_F(Recovering, DoesNotReturnWithoutAPlan) {
  options_.planned.reset();
  StepRecovery recovery = this->recovery();
  EXPECT_EQ(fail_twice(recovery), 4);
  free_ = 5000;
  EXPECT_EQ(after_steps(recovery, 100), 4);
}

TEST_F(Recovering, DoesNotReturnAfterItsOwnBudgetWasExceeded) {
  StepRecovery recovery = this->recovery();
  CountingAllocator counter;
  counter.set_limit(100);
  const auto refuse = [] {
    EXPECT_THROW(torch::empty({200}, torch::kByte), c10::OutOfMemoryError);
  };
  recovery.begin_step();
  refuse();
  EXPECT_TRUE(recovery.retries(1));
  refuse();
  EXPECT_TRUE(recovery.retries(1));
  EXPECT_EQ(execution_.plan().micro_batch, 4);
  EXPECT_EQ(context_.said.front(),
            "step 1: out of memory (200 B were requested while 0 B of 100 B were in use): repeated "
            "unchanged, retry 1");
  free_ = 5000;
  EXPECT_EQ(after_steps(recovery, 100), 4);
}

TEST_F(Recovering, FailedPlansAreNotProposedAgain) {
  options_.replan = [](const MemoryPolicy& failed, std::int64_t) {
    MemoryPolicy next = failed;  // a planner that trusts its prediction more than the failure
    next.micro_batch = failed.micro_batch == 4 ? 2 : 4;
    return std::optional(next);
  };
  StepRecovery recovery = this->recovery();
  EXPECT_EQ(fail_twice(recovery), 4);
  EXPECT_TRUE(recovery.retries(1));
  EXPECT_EQ(execution_.plan().micro_batch, 2);
  EXPECT_FALSE(recovery.retries(1)) << "there is nothing else";
}

TEST_F(Recovering, SuccessfulStepsAreCountedPerPlan) {
  StepRecovery recovery = this->recovery();
  free_ = 600;
  EXPECT_EQ(fail_twice(recovery), 4);
  EXPECT_EQ(after_steps(recovery, 2), 4);
  EXPECT_EQ(fail_twice(recovery), 2);
  free_ = 5000;
  EXPECT_EQ(after_steps(recovery, 2), 2);
  EXPECT_EQ(after_steps(recovery, 1), 0);
}

TEST_F(Recovering, RetriesAreCountedForEachStep) {
  policy_.recovery.max_retries = 2;
  StepRecovery recovery = this->recovery();
  EXPECT_EQ(fail_twice(recovery), 4);
  EXPECT_FALSE(recovery.retries(1));
  recovery.begin_step();
  EXPECT_TRUE(recovery.retries(2));
  EXPECT_EQ(context_.said.back(), "step 2: out of memory: repeated unchanged, retry 1 of 2");
}

TEST_F(Recovering, EmptiesTheCacheBeforeMeasuringFreeMemory) {
  const CpuPool pool;
  const CountingAllocator counter;
  constexpr std::int64_t kUnused = 8 << 20;
  std::int64_t reserved = 0;
  options_.free_now = [&] {
    reserved = pool.reserved();
    return reserved;
  };
  StepRecovery recovery = this->recovery();
  recovery.begin_step();
  EXPECT_TRUE(recovery.retries(1));
  torch::empty({kUnused}, torch::kByte);
  ASSERT_GE(pool.reserved(), kUnused);
  reserved = kUnused;
  EXPECT_TRUE(recovery.retries(1));
  EXPECT_LT(reserved, kUnused);
}

TEST_F(Recovering, UsesAndKeepsALaterPlanAfterKills) {
  StepRecovery recovery = this->recovery();
  recovery.go_on_after_kills(0);
  EXPECT_EQ(execution_.plan().micro_batch, 0);
  EXPECT_TRUE(context_.recoveries.empty());
  recovery.go_on_after_kills(2);
  EXPECT_EQ(execution_.plan().micro_batch, 2);
  EXPECT_EQ(recovery.policy().micro_batch, 2);
  EXPECT_THAT(context_.said,
              ElementsAre("continues with micro_batch 2 instead of the whole batch of 8: "
                          "workers that used the whole batch of 8 were killed"));
  ASSERT_EQ(context_.recoveries.size(), 1U);
  EXPECT_EQ(context_.recoveries[0].cause, "killed");
  EXPECT_EQ(context_.recoveries[0].to, "micro_batch 2");
  free_ = 5000;
  EXPECT_EQ(after_steps(recovery, 100), 2);
}

TEST_F(Recovering, RunEndsIfNoPlanIsLeftAfterKills) {
  StepRecovery recovery = this->recovery();
  EXPECT_REFUSED(recovery.go_on_after_kills(4), kOutOfMemory, "", "micro_batch 1");  // 4, 2, 1
}

TEST_F(Recovering, CheckpointRecordsAllChanges) {
  policy_.optimizer_in_backward = true;
  options_.replan = [](const MemoryPolicy& failed, std::int64_t) {
    MemoryPolicy next = failed;
    next.micro_batch = 4;
    next.two_pass = true;
    next.activation_checkpointing.modules = {"model.a"};
    next.optimizer_in_backward = false;
    return std::optional(next);
  };
  options_.plan_under = [](const MemoryPolicy& policy) {
    return StepPlan{.micro_batch = policy.micro_batch.value_or(0),
                    .two_pass = policy.two_pass,
                    .activation_checkpointing = policy.activation_checkpointing,
                    .optimizer_in_backward = policy.optimizer_in_backward};
  };
  const StepPlan first{.optimizer_in_backward = true};
  execution_.replace_plan(first);
  StepRecovery recovery = this->recovery();
  fail_twice(recovery);
  const nlohmann::json saved = recovery.state();
  const StepPlan in_force = execution_.plan();
  execution_.replace_plan(first);
  options_.replan = [](const MemoryPolicy& failed, std::int64_t) {
    MemoryPolicy whole = failed;
    whole.micro_batch.reset();
    whole.two_pass = false;
    whole.activation_checkpointing.modules.clear();
    whole.optimizer_in_backward = true;
    return std::optional(whole);
  };
  StepRecovery resumed = this->recovery();
  resumed.restore(saved);
  EXPECT_EQ(execution_.plan(), in_force);
  EXPECT_EQ(resumed.policy().micro_batch, 4);
  EXPECT_TRUE(resumed.policy().two_pass);
  EXPECT_FALSE(resumed.policy().optimizer_in_backward);
  EXPECT_THAT(resumed.policy().activation_checkpointing.modules, ElementsAre("model.a"));
  resumed.begin_step();
  EXPECT_TRUE(resumed.retries(1));
  EXPECT_FALSE(resumed.retries(1)) << "the first plan of the training has failed";
}

TEST_F(Recovering, ReplanReceivesTheUsedBytes) {
  std::vector<std::int64_t> told;
  options_.replan = [&](const MemoryPolicy& failed, std::int64_t bytes) {
    told.push_back(bytes);
    MemoryPolicy next = failed;
    next.micro_batch = 4;
    return std::optional(next);
  };
  free_ = 77;
  StepRecovery recovery = this->recovery();
  fail_twice(recovery);
  EXPECT_THAT(told, ElementsAre(77)) << "nothing was counted";
}

}  // namespace
}  // namespace stages
