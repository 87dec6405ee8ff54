#include <algorithm>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/machine/counting_allocator.h"
#include "stages/train/trainer.h"
#include "stages/weights/weights.h"
#include "tests/support/spoilt_training.h"

// Steps that fail for good: the training ends with the weights of the step before.

namespace stages {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

/// Returns the error of the training after the first step; its weights, buffers and generator must
/// be those before the second step.
std::string error_in_second_step(SpoiltTraining& training) {
  training.spoilt_step = 2;
  std::string message = "nothing was thrown";
  try {
    training.run();
  } catch (const std::exception& error) {
    message = error.what();
  }
  EXPECT_TRUE(SpoiltState::of(*training.network).equals(training.before.value()));
  for (const at::Tensor& parameter : training.network->parameters())
    EXPECT_FALSE(parameter.grad().defined());
  return message;
}

/// Returns the first `count` lines of the training's log, without the GPU memory at its start.
std::vector<std::string> said_first(const SpoiltTraining& training, std::size_t count) {
  std::vector<std::string> said = training.context.said;
  std::erase_if(said, [](const std::string& line) { return line.starts_with("memory at "); });
  said.resize(std::min(count, said.size()));
  return said;
}

TEST(Transaction, RunStopsWithoutReplays) {
  SpoiltTraining training({});
  CountingAllocator counter;
  training.counter = &counter;
  training.refused = 30;
  EXPECT_THAT(error_in_second_step(training), StartsWith("out of memory in "));
  EXPECT_THAT(training.context.said, testing::Each(testing::Not(testing::HasSubstr("repeated"))));
  EXPECT_TRUE(training.context.recoveries.empty());
}

TEST(Transaction, StepsBeforeOutOfMemoryAreSaved) {
  SpoiltTraining training({});
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  EXPECT_THAT(training.context.said,
              testing::Contains("saved after step 1, the last step before memory ran out"));
  const auto saved = read_checkpoint(training.context.node().folder / "checkpoints/step-00000001",
                                     CheckpointPart::kAll);
  EXPECT_EQ(saved.step, 1);
  EXPECT_EQ(saved.batch, 1);
  for (const auto& [name, tensor] : trained_parameters(*training.network)) {
    EXPECT_TRUE(tensor.cpu().equal(saved.model.at(name))) << name;
  }
}

TEST(Transaction, OtherErrorsSaveNothing) {
  SpoiltTraining training({});
  training.on_loss = [] { throw std::runtime_error("spoilt"); };
  error_in_second_step(training);
  EXPECT_FALSE(
      std::filesystem::exists(training.context.node().folder / "checkpoints/step-00000001"));
}

TEST(Transaction, PersistentFaultEndsTheReplays) {
  SpoiltTraining training({.batch_norm = false});
  training.policy.recovery.max_retries = 2;
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  EXPECT_THAT(said_first(training, 3),
              ElementsAre("step 2: out of memory: repeated unchanged, retry 1 of 2",
                          "step 2: out of memory: repeated with micro_batch 4 instead of the "
                          "whole batch of 8, retry 2 of 2",
                          "kept from step to step when memory ran out at step 2"));
}

TEST(Transaction, UnlimitedRetriesContinueDownToTheMinimum) {
  SpoiltTraining training({.batch_norm = false});
  training.policy.min_micro_batch = 2;
  training.policy.recovery.max_retries.reset();
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  EXPECT_THAT(
      said_first(training, 4),
      ElementsAre(
          "step 2: out of memory: repeated unchanged, retry 1",
          "step 2: out of memory: repeated with micro_batch 4 instead of the whole batch of 8, "
          "retry 2",
          "step 2: out of memory: repeated with micro_batch 2 instead of micro_batch 4, retry 3",
          "kept from step to step when memory ran out at step 2"));
}

TEST(Transaction, FailedPlanIsNotUsedInTheNextStep) {
  SpoiltTraining training({.batch_norm = false});
  training.policy.recovery.max_retries = 2;
  training.spoilt_step = 1;
  training.on_loss = [&] {
    if (training.context.recoveries.size() < 2) throw std::bad_alloc();
  };
  training.run();
  EXPECT_EQ(training.context.recoveries.size(), 2);
  EXPECT_EQ(training.parts_, 2) << "the second step is cut too";
}

TEST(Transaction, RetriesAreCountedForEachStep) {
  SpoiltTraining training({.batch_norm = false});
  CountingAllocator counter;
  training.counter = &counter;
  training.policy.recovery.max_retries = 1;
  training.refused = 20;
  training.spoils_every_step = true;
  training.run();
  EXPECT_EQ(training.context.recoveries.size(), 2);
}

TEST(Transaction, NothingIsRetriedWithoutReplan) {
  SpoiltTraining training({.batch_norm = false});
  training.policy.recovery.max_retries.reset();
  training.policy.recovery.on_oom = {OnOom::kStop};
  training.on_loss = [] { throw std::bad_alloc(); };
  error_in_second_step(training);
  EXPECT_TRUE(training.context.recoveries.empty());
}

TEST(Transaction, OtherErrorsAreNotReplayedAndKeepTheLastStep) {
  for (const auto& [one, message] :
       {std::pair(SpoiltCase{}, "broken"),
        std::pair(SpoiltCase{.precision = Precision::kFp16}, "broken"),
        std::pair(SpoiltCase{.batch_norm = false, .micro_batch = 3}, "broken")}) {
    SpoiltTraining training(one);
    training.policy.recovery.max_retries = 2;
    training.on_loss = [&training] {
      if (training.parts_ == 2 || !training.policy.micro_batch) throw std::runtime_error("broken");
    };
    EXPECT_EQ(error_in_second_step(training), message);
    EXPECT_THAT(said_first(training, 1), testing::IsEmpty());
  }
}

TEST(Transaction, NonFiniteLossKeepsTheLastStep) {
  SpoiltTraining training({});
  training.is_nan = true;
  EXPECT_THAT(error_in_second_step(training), StartsWith("the loss is not finite at step 2"));
}

TEST(Transaction, NonFiniteLossThatIsNoticedLaterKeepsTheLastStep) {
  const auto check = [](const SpoiltCase& one, bool in_backward) {
    SpoiltTraining training(one);
    training.data = std::make_shared<TinyDataset>(6 * 8);
    training.data->options.workers = 0;
    training.options.log_every = 1000;
    training.policy.optimizer_in_backward = in_backward;
    if (in_backward) training.options.gradient_clip_norm.reset();
    training.is_nan = true;
    EXPECT_THAT(error_in_second_step(training), StartsWith("the loss is not finite at step 2"));
  };
  check({}, false);
  check({.precision = Precision::kFp16}, false);
  check({.batch_norm = false, .micro_batch = 3}, false);
  check({}, true);
}

}  // namespace
}  // namespace stages
