#include "stages/text_file.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "runner/stage.h"
#include "tests/support/recording_context.h"

namespace stages {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TextFile, ReplacesWhatWasThere) {
  const RecordingContext context;
  const auto path = context.folder() / "report.txt";
  write_text_file(path, "a longer first text");
  write_text_file(path, "second");
  EXPECT_EQ(contents(path), "second");
}

TEST(TextFile, LeavesNothingElseBehind) {
  const RecordingContext context;
  std::ofstream(context.folder() / "report.txt.part") << "of a run that was killed";
  write_text_file(context.folder() / "report.txt", "x");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(context.folder()), {}), 1);
}

TEST(TextFile, FolderThatIsNotThereIsNamed) {
  const RecordingContext context;
  const auto path = context.folder() / "missing" / "report.txt";
  try {
    write_text_file(path, "x");
    FAIL();
  } catch (const runner::StageError& error) {
    EXPECT_EQ(error.code, runner::ErrorCode::kCannotWrite);
    EXPECT_EQ(error.what(), "cannot write '" + path.string() + "': No such file or directory");
  }
}

TEST(TextFile, FailureLeavesTheOldFileAndNoHalf) {
  const RecordingContext context;
  const auto path = context.folder() / "taken";
  std::filesystem::create_directories(path / "inside");  // a folder that a file cannot replace
  EXPECT_THROW(write_text_file(path, "x"), runner::StageError);
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
}

}  // namespace
}  // namespace stages
