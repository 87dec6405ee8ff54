// Plans every command of the published retina grading in tests/cases/published_commands.case. A
// command that can be planned can be run.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace {

struct RetinaCommand {
  std::string arguments;  ///< "diabetic_retinopathy data.root=photographs epochs=100"
  bool is_refused = false;
};

std::vector<RetinaCommand> retina_commands() {
  std::vector<RetinaCommand> commands;
  std::size_t of_section = 0;
  std::ifstream file(RETORT_SOURCE_DIR "/tests/cases/published_commands.case");
  for (std::string line; std::getline(file, line);) {
    const std::string start = "retort run ";
    if (line.starts_with("=== ")) of_section = commands.size();
    if (line.starts_with(start + "diabetic_retinopathy"))
      commands.push_back({.arguments = line.substr(start.size())});
    if (line != "--- errors") continue;
    for (std::size_t i = of_section; i < commands.size(); ++i) commands[i].is_refused = true;
  }
  return commands;
}

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
  const std::vector<RetinaCommand> commands = retina_commands();
  EXPECT_GT(commands.size(), 12U);
  for (const auto& [arguments, is_refused] : commands) {
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
