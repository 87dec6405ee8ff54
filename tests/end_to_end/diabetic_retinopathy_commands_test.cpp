// Plans commands of the published retina grading in tests/cases/published_commands.case. A
// command that can be planned can be run.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/declared_metrics.h"
#include "tests/support/program.h"
#include "tests/support/published_commands.h"

namespace {

TEST(RetinaCommands, ValidCommandsCanBePlanned) {
  const TemporaryFolder folder;
  for (const char* out : {"photographs", "dataset_eyepacs_5class_balanced"}) {
    const Ended made = retort(
        "data make fundus_folders --out " + std::string(out) + " --per-class 10 --size 48 -q",
        folder.path());
    ASSERT_EQ(made.exit, 0) << made.err;
  }
  // Other tests plan the network itself; its weights are not available here.
  const std::string small = " device=cpu model.weights=null data.image_size=32";
  const std::vector<PublishedCommand> commands = published_commands("diabetic_retinopathy");
  EXPECT_GT(commands.size(), 12U);
  for (const auto& [arguments, is_refused] : commands_to_plan(commands)) {
    const bool is_another = arguments.find("base_models=") != std::string::npos &&
                            arguments.find("base_models=seresnext50_32x4d") == std::string::npos;
    const Ended planned =
        retort("plan " + arguments + small + (is_another ? "" : " 'model.layers=[1,1,1,1]'"),
               folder.path());
    EXPECT_EQ(planned.exit, is_refused ? 78 : 0) << arguments << '\n' << planned.err;
    if (!is_refused)
      EXPECT_THAT(planned.out, testing::HasSubstr("fits: the run needs the most memory at "))
          << arguments;
  }
}

TEST(RetinaCommands, RunAndPredictPrintTheResearchNotice) {
  const TemporaryFolder folder;
  const Ended made = retort(
      "data make fundus_folders --out photographs --per-class 10 --size 48 -q", folder.path());
  ASSERT_EQ(made.exit, 0) << made.err;
  const Ended ended = retort(
      "run diabetic_retinopathy data.root=photographs model.weights=null 'model.layers=[1,1,1,1]' "
      "data.image_size=32 data.loader.workers=0 --smoke run.dir=run",
      folder.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  expect_declared_metrics_in(folder / "run");
  EXPECT_EQ(retort("report run -o report.html", folder.path()).exit, 0);
  const std::string notice = "For research only. This is not a medical device";
  EXPECT_THAT(ended.err, testing::HasSubstr("notice: " + notice));
  EXPECT_THAT(file_text(folder / "run/.retort/recipe.yaml"), testing::HasSubstr(notice));
  const Ended predicted = retort("predict run photographs/test/0", folder.path());
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_THAT(predicted.err, testing::HasSubstr("notice: " + notice));
  EXPECT_THAT(predicted.out,
              testing::StartsWith("file,prediction,tied,margin,votes_No DR,votes_Mild NPDR,"));
  EXPECT_THAT(predicted.out, testing::HasSubstr(",votes_PDR,p_No DR-Mild NPDR,"));
  const Ended explained = retort("predict run photographs/test/0 --explain why -q", folder.path());
  EXPECT_EQ(explained.exit, 0) << explained.err;
  int pictures = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "why")) {
    EXPECT_TRUE(file_text(entry.path()).starts_with("\x89PNG")) << entry.path();
    ++pictures;
  }
  EXPECT_GE(pictures, 2);
}

}  // namespace
