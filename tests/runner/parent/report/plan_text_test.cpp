#include "runner/parent/report/plan_text.h"

#include <gmock/gmock.h>

#include "tests/support/memory_plans.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;

const TextStyle kStyle{.width = 80, .has_blocks = true};

TEST(PlanText, ShowsTheWholePlan) {
  EXPECT_EQ(plan_text(memory_plan(), kStyle),
            R"(train on cpu, 2 threads
  needs 1.25 GiB of 8.00 GiB (memory.budget): fits, 6.75 GiB to spare
  peak in backward at aten::convolution_backward: live 1.07 GiB, reserved 1.17 GiB
  a step: micro_batch 16, two_pass off, precision fp32; 2.28 TFLOP

  live bytes over a step, up to 1.07 GiB
    ▁▃▆██▅▃▁
    forward

  live at the peak
        bytes  of
    900.0 MiB  saved_activation
    100.0 MiB  parameter
    100.0 MiB  gradient

  largest at the peak
       bytes  owner             what            shape                        made by
    49.0 MiB  saved_activation  layer1.0.conv1  (16, 64, 112, 112)  float32  aten::convolution
     2.0 MiB  parameter         head.weight     (1000, 512)         float32

  estimate for the backend, in addition to the tensors (2.11.0-1)
       bytes  of
    80.0 MiB  kernel temporaries  2 threads

  saved at the peak by the recipe's memory options
    saves  option
      0 B  memory.empty_cache_every=50  it returns unused blocks, and lowers no peak

  alternatives, cheapest first; launches: operations started, each with a fixed cost
        needs                           with                  result  compute  launches
     1.25 GiB  fits, 6.75 GiB to spare  as written            bit       1.00x     1.00x
    700.0 MiB  fits, 7.32 GiB to spare  memory.micro_batch=8  exact     1.00x     1.90x
)");
}

TEST(PlanText, MemoryHeldByEarlierNodesHasItsOwnLines) {
  MemoryPlan plan = memory_plan();
  plan.held = {{"train.1.checkpoint", 100 << 20}, {"train.2.checkpoint", 28 << 20}};
  const std::string text = plan_text(plan, kStyle);
  EXPECT_THAT(
      text,
      HasSubstr(
          "needs 1.25 GiB, 128.0 MiB of it held by earlier nodes, of 8.00 GiB (memory.budget)"));
  EXPECT_THAT(text, HasSubstr("  held by earlier nodes until their results are used\n"
                              "        bytes  of\n"
                              "    100.0 MiB  train.1.checkpoint\n"
                              "     28.0 MiB  train.2.checkpoint\n"));
}

TEST(PlanText, ShowsTheExcessOfEachAlternative) {
  MemoryPlan plan = plan_that_does_not_fit();
  plan.alternatives.push_back({{"memory.two_pass=on"}, "exact", 0, 1, "BatchNorm mixes samples"});
  const std::string text = plan_text(plan, kStyle);
  EXPECT_THAT(
      text,
      HasSubstr("needs 1.25 GiB of 1.00 GiB (memory.budget): does not fit, 256.0 MiB too much\n"));
  EXPECT_THAT(text,
              HasSubstr("256.0 MiB too much                as written            bit       1.00x"));
  EXPECT_THAT(text,
              HasSubstr("fits, 324.0 MiB to spare          memory.micro_batch=8  exact     1.00x"));
  EXPECT_THAT(text, HasSubstr("–  refused: BatchNorm mixes samples  memory.two_pass=on    exact"));
}

TEST(PlanText, MissingBudgetIsReported) {
  MemoryPlan plan = memory_plan();
  plan.budget.reset();
  EXPECT_THAT(plan_text(plan, kStyle), HasSubstr("needs 1.25 GiB; no budget is known\n"));
}

TEST(PlanText, EmptySectionsAreLeftOut) {
  MemoryPlan plan;
  plan.node = "evaluate";
  plan.device = "NVIDIA L4";
  EXPECT_EQ(
      plan_text(plan, kStyle),
      "evaluate on NVIDIA L4\n  needs 0 B; no budget is known\n  peak: live 0 B, reserved 0 B\n");
}

TEST(PlanText, UsesAsciiIfBlockCharactersAreUnavailable) {
  const std::string text = plan_text(memory_plan(), {.width = 80, .has_blocks = false});
  EXPECT_THAT(text, HasSubstr("    _-*@@+-_\n"));
}

TEST(PlanText, NamesCannotControlTheTerminal) {
  MemoryPlan plan = memory_plan();
  plan.largest[0].name = "layer\x1b[2J\nx";
  const std::string text = plan_text(plan, kStyle);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(PlanText, TensorIsShownOnOneLine) {
  EXPECT_EQ(tensor_text(memory_plan().largest[1]), "head.weight (1000, 512) float32, 2.0 MiB");
  AliveTensor nameless = memory_plan().largest[1];
  nameless.name = "";
  EXPECT_EQ(tensor_text(nameless), "parameter (1000, 512) float32, 2.0 MiB");
  EXPECT_EQ(override_text({"a=1", "b=2"}), "a=1 b=2");
}

}  // namespace
}  // namespace runner
