#include "runner/shared/disk/digest.h"

#include <sys/stat.h>

#include <cerrno>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

std::string sum(DigestKind kind, std::string_view bytes) {
  Digest digest(kind);
  digest.update(bytes.substr(0, bytes.size() / 2));
  digest.update("");
  digest.update(bytes.substr(bytes.size() / 2));
  return digest.finish();
}

TEST(Digest, MatchesPublishedExamples) {  // FIPS 180-4's and RFC 1321's examples
  EXPECT_EQ(sum(DigestKind::kMd5, ""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(sum(DigestKind::kMd5, "abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(sum(DigestKind::kSha1, "abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sum(DigestKind::kSha256, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), sum(DigestKind::kSha256, "abc"));
}

TEST(Digest, FileIsReadCompletelyWithProgress) {
  const TemporaryFolder folder;
  const std::string text((1 << 20) + 5, 'x');
  std::vector<std::int64_t> told;
  Digest digest;
  EXPECT_EQ(digest.update_from(folder.write("a", text),
                               [&](std::int64_t bytes) { told.push_back(bytes); }),
            0);
  EXPECT_EQ(digest.finish(), sha256(text));
  EXPECT_EQ(told, (std::vector<std::int64_t>{1 << 20, (1 << 20) + 5}));
}

TEST(Digest, IrregularFilesAreRejected) {
  const TemporaryFolder folder;
  Digest digest;
  EXPECT_EQ(digest.update_from(folder.path()), EISDIR);
  EXPECT_EQ(digest.update_from(folder / "nothing"), ENOENT);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(digest.update_from(folder / "pipe"), EINVAL);
}

}  // namespace
}  // namespace runner
