#include "stages/fetch/download.h"

#include <gtest/gtest.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

TEST(Checksum, BlobSumMatchesGit) {
  const TemporaryFolder folder;
  const auto file = folder.write("a", "hello\n");
  std::int64_t read = 0;
  // The output of `git hash-object` for this file.
  EXPECT_EQ(sum_of_file(file, {runner::DigestKind::kSha1, "", true},
                        [&](std::int64_t bytes) { read = bytes; }),
            "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(read, 6);
  EXPECT_EQ(sum_of_file(file, {runner::DigestKind::kMd5, ""}, {}),
            "b1946ac92492d2347c6235b4d2611184");
}

TEST(Checksum, FoldersAndMissingFilesAreRejected) {
  const TemporaryFolder folder;
  const auto failure = [](const std::filesystem::path& path) {
    sum_of_file(path, {runner::DigestKind::kMd5, ""}, {});
  };
  EXPECT_REFUSED(failure(folder.path()), kMissingFile, "", folder.path().string(), "directory");
  EXPECT_REFUSED(failure("no/such"), kMissingFile, "", "no/such");
}

}  // namespace
}  // namespace stages
