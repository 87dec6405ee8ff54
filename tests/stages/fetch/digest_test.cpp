#include "stages/fetch/digest.h"

#include <gtest/gtest.h>

#include "runner/stage/stage.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

std::string sum(DigestKind kind, std::string_view bytes) {
  Digest digest(kind);
  digest.update(bytes.substr(0, bytes.size() / 2));
  digest.update(bytes.substr(bytes.size() / 2));
  return digest.finish();
}

TEST(Digest, KnownSums) {
  EXPECT_EQ(sum(DigestKind::kMd5, ""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(sum(DigestKind::kMd5, "abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(sum(DigestKind::kSha1, "abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sum(DigestKind::kSha256, "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, FileAsGitNamesIt) {
  const TemporaryFolder folder;
  const auto file = folder.write("a", "hello\n");
  std::int64_t read = 0;
  // What `git hash-object` says of it.
  EXPECT_EQ(sum_of_file(file, {DigestKind::kSha1, "", true}, [&](std::int64_t bytes) { read = bytes; }),
            "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(read, 6);
  EXPECT_EQ(sum_of_file(file, {DigestKind::kMd5, ""}, {}), "b1946ac92492d2347c6235b4d2611184");
}

TEST(Digest, FolderAndNothingAreNoFiles) {
  const TemporaryFolder folder;
  const auto failure = [](const std::filesystem::path& path) {
    try {
      sum_of_file(path, {DigestKind::kMd5, ""}, {});
    } catch (const runner::StageError& error) {
      return runner::name(error.code) + ": " + error.what();
    }
    return std::string("none");
  };
  EXPECT_EQ(failure(folder.path()), "E0634: cannot read '" + folder.path().string() + "': Is a directory");
  EXPECT_EQ(failure("no/such"), "E0634: cannot read 'no/such': No such file or directory");
}

}  // namespace
}  // namespace stages
