#include "stages/fetch/download.h"

#include <gtest/gtest.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

TEST(Checksum, FileAsGitNamesIt) {
  const TemporaryFolder folder;
  const auto file = folder.write("a", "hello\n");
  std::int64_t read = 0;
  // What `git hash-object` says of it.
  EXPECT_EQ(sum_of_file(file, {runner::DigestKind::kSha1, "", true},
                        [&](std::int64_t bytes) { read = bytes; }),
            "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(read, 6);
  EXPECT_EQ(sum_of_file(file, {runner::DigestKind::kMd5, ""}, {}),
            "b1946ac92492d2347c6235b4d2611184");
}

TEST(Checksum, FolderAndNothingAreNoFiles) {
  const TemporaryFolder folder;
  const auto failure = [](const std::filesystem::path& path) {
    try {
      sum_of_file(path, {runner::DigestKind::kMd5, ""}, {});
    } catch (const runner::StageError& error) {
      return runner::name(error.code) + ": " + error.what();
    }
    return std::string("none");
  };
  EXPECT_EQ(failure(folder.path()),
            "E0634: cannot read '" + folder.path().string() + "': Is a directory");
  EXPECT_EQ(failure("no/such"), "E0634: cannot read 'no/such': No such file or directory");
}

}  // namespace
}  // namespace stages
