#include "stages/train/memory_log.h"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

OutOfMemory example() {
  static const char weight = 0, bias = 0, moment = 0, a = 0, b = 0, c = 0;
  constexpr std::int64_t kMiB = 1 << 20;
  return {.step = 2,
          .refused = RefusedBlock{4 * kMiB,
                                  61 * kMiB,
                                  61 * kMiB,
                                  65 * kMiB,
                                  64 * kMiB,
                                  StepPhase::kBackward,
                                  {{&weight, 16 * kMiB, StepPhase::kIdle},
                                   {&bias, kMiB, StepPhase::kIdle},
                                   {&moment, 16 * kMiB, StepPhase::kOptimizer},
                                   {&a, 12 * kMiB, StepPhase::kForward},
                                   {&b, 12 * kMiB, StepPhase::kForward},
                                   {&c, 4 * kMiB, StepPhase::kForward}}},
          .owned = {{"parameter", "head.weight", &weight, 16 * kMiB},
                    {"parameter", "head.bias", &bias, kMiB},
                    {"optimizer_state", "head.weight.momentum", &moment, 16 * kMiB}},
          .micro_batch = 0,
          .batch_size = 64,
          .can_be_cut = true,
          .policy = "/memory",
          .has_own_budget = true,
          .cause = "out of memory: tried\nbacktrace"};
}

TEST(OutOfMemory, TableListsOwnersAndPhases) {
  EXPECT_THAT(live_table(example()),
              testing::ElementsAre("live when memory ran out in phase 'backward' of step 2: 61 "
                                   "MiB, and 4.0 MiB more were requested",
                                   "  allocated in forward 28 MiB: 2 of 12 MiB, 1 of 4.0 MiB",
                                   "  parameter 17 MiB: head.weight 16 MiB, head.bias 1.0 MiB",
                                   "  optimizer_state 16 MiB: head.weight.momentum 16 MiB"));
}

TEST(OutOfMemory, PhaseIsOmittedBetweenSteps) {
  OutOfMemory what = example();
  what.refused->phase = what.refused->alive[3].phase = StepPhase::kIdle;
  EXPECT_EQ(live_table(what)[0],
            "live when memory ran out in step 2: 61 MiB, and 4.0 MiB more were requested");
  EXPECT_EQ(live_table(what)[4], "  allocated between steps 12 MiB: 1 of 12 MiB");
}

TEST(OutOfMemory, TableListsKeptTensorsWithoutACounter) {
  OutOfMemory what = example();
  what.refused.reset();
  EXPECT_THAT(live_table(what),
              testing::ElementsAre("kept from step to step when memory ran out at step 2",
                                   "  parameter 17 MiB: head.weight 16 MiB, head.bias 1.0 MiB",
                                   "  optimizer_state 16 MiB: head.weight.momentum 16 MiB"));
}

std::string in_words(const OutOfMemory& what) {
  const runner::StageError error = out_of_memory_error(what);
  EXPECT_EQ(error.code, runner::ErrorCode::kOutOfMemory);
  return error.stage + error.option + ": " + error.what() + " | " + error.help;
}

TEST(OutOfMemory, BudgetOfTheRecipeIsReportedAtItsPointer) {
  EXPECT_EQ(in_words(example()),
            "/memory/budget: out of memory in phase 'backward' of step 2: tried to allocate 4.0 "
            "MiB while 61 MiB of 64 MiB are in use | set memory.micro_batch below the batch of 64, "
            "or raise the budget: 68157440 "
            "bytes is the smallest budget that gets further");
}

TEST(OutOfMemory, FullMachineIsNotBlamedOnTheBudget) {
  OutOfMemory what = example();
  what.has_own_budget = false;
  what.micro_batch = 16;
  EXPECT_EQ(in_words(what),
            ": out of memory in phase 'backward' of step 2: tried to allocate 4.0 MiB while 61 MiB "
            "of 64 MiB are in use | lower memory.micro_batch, which is 16");
  what.refused->limit.reset();
  what.can_be_cut = false;
  EXPECT_EQ(in_words(what),
            ": out of memory in phase 'backward' of step 2: tried | lower train.batch_size, which "
            "is 64: this batch cannot be split without changing the training");
  what.refused.reset();
  what.can_be_cut = true;
  what.micro_batch = 1;
  what.cause = "CUDA out of memory. Tried to allocate 2.00 GiB";
  EXPECT_EQ(in_words(what),
            ": out of memory in step 2: CUDA out of memory. Tried to allocate 2.00 GiB | use a "
            "smaller model or input");
}

}  // namespace
}  // namespace stages
