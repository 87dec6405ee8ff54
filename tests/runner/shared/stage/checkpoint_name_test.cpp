#include "runner/shared/stage/checkpoint_files.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

TEST(CheckpointName, IsTheStepWithAtLeastEightDigits) {
  EXPECT_EQ(to_text(CheckpointName{.step = 1234}), "step-00001234");
  EXPECT_EQ(to_text(CheckpointName{.step = 1234567890}), "step-1234567890");
  EXPECT_EQ(to_text(CheckpointName{.step = 0, .again = 2}), "step-00000000-2");
}

TEST(CheckpointName, IsReadBack) {
  for (const CheckpointName name : {CheckpointName{0, 0}, {7, 1}, {99999999, 0}, {100000000, 12}}) {
    EXPECT_EQ(checkpoint_name_from(to_text(name)), name);
  }
}

TEST(CheckpointName, InvalidStringsAreNotCheckpointNames) {
  for (const char* text :
       {"", "step-", "step-1", "step-0000001", "step-000000001", "step-00000001-",
        "step-00000001-0", "step-00000001-01", "step-00000001-1-1", "step-0000000-1",
        "step--0000001", "step-00000001 ", " step-00000001", "step-00000001/..", "../step-00000001",
        "step-99999999999999999999", ".step-00000001.part", "Step-00000001"}) {
    EXPECT_FALSE(checkpoint_name_from(text)) << text;
  }
}

TEST(CheckpointName, FoldersAreListedNewestFirst) {
  const TemporaryFolder folder;
  for (const char* name : {"step-00000009", "step-00000010", "step-00000010-2", "step-00000010-10",
                           "step-123456789", ".step-00000011.part", "other"}) {
    std::filesystem::create_directory(folder / name);
  }
  folder.write("step-00000020", "a file");
  std::filesystem::create_directory_symlink(folder / "other", folder / "step-00000030");
  std::vector<std::string> names;
  for (const CheckpointName& name : list_checkpoints(folder.path())) names.push_back(to_text(name));
  EXPECT_EQ(names, (std::vector<std::string>{"step-123456789", "step-00000010-10",
                                             "step-00000010-2", "step-00000010", "step-00000009"}));
  EXPECT_TRUE(list_checkpoints(folder / "missing").empty());
}

}  // namespace
}  // namespace runner
