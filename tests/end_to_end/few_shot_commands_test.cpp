// Plans commands of the published few-shot program in tests/cases/published_commands.case, on
// data in the published formats. A command that can be planned can be run.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/published_commands.h"

namespace {

TEST(FewShotCommands, ValidCommandsCanBePlanned) {
  const TemporaryFolder folder;
  for (const char* made :
       {"mini_imagenet --out dataset/miniImagenet", "mini_imagenet --out dataset/CIFAR_FS --seed 3",
        "cub200 --out dataset/CUB"}) {
    const Ended ended =
        retort("data make " + std::string(made) + " --classes 20 --per-class 21 --size 16 -q",
               folder.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
  }
  const std::vector<PublishedCommand> commands = published_commands("fsct");
  EXPECT_GT(commands.size(), 30U);
  for (const auto& [arguments, is_refused] : commands_to_plan(commands)) {
    const bool has_weights = arguments.find("backbone=Conv") == arguments.npos;
    const Ended planned = retort(
        "plan " + arguments + " device=cpu" + (has_weights ? " model.backbone.weights=null" : ""),
        folder.path());
    EXPECT_EQ(planned.exit, is_refused ? 78 : 0) << arguments << '\n' << planned.err;
    if (!is_refused)
      EXPECT_THAT(planned.out, testing::HasSubstr("fits: the run needs the most memory at "))
          << arguments;
  }
}

// The published program used weights from torchvision; here they can be fetched.
TEST(FewShotCommands, MissingWeightsAreReportedWithTheFetchCommand) {
  const TemporaryFolder folder;
  const Ended made = retort(
      "data make mini_imagenet --out dataset/miniImagenet --classes 20 --per-class 21 --size 16 -q",
      folder.path());
  ASSERT_EQ(made.exit, 0) << made.err;
  const Ended planned = run_shell("HF_HOME=nowhere " RETORT_BINARY_DIR
                                  "/bin/retort plan fsct backbone=ResNet34 device=cpu",
                                  folder.path());
  EXPECT_EQ(planned.exit, 66);
  EXPECT_THAT(planned.err, testing::HasSubstr(
                               "help: fetch it with `retort data fetch hf:timm/resnet34.tv_in1k`"));
}

}  // namespace
