#include "stages/data/annotation_files.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

TEST(AnnotationFiles, OversizedFileIsNotRead) {
  const TemporaryFolder folder;
  const std::size_t limit = 1 << 20;
  folder.write("list.txt", std::string(limit, 'x'));
  AnnotationFiles files(folder.path());
  EXPECT_EQ(files.read("list.txt", limit), std::string(limit, 'x'));
  EXPECT_TRUE(files.is_faultless());
  EXPECT_EQ(files.read("list.txt", limit - 1), std::nullopt);
  files.for_lines("list.txt", limit - 1, [](std::size_t, std::string_view) { FAIL(); });
  folder.write("list.txt", std::string(limit + 1, 'x'));
  EXPECT_EQ(files.read("list.txt", limit), std::nullopt);
  const runner::Diagnostics errors = files.errors();
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[2].code, runner::ErrorCode::kBadAnnotations);
  EXPECT_EQ(errors[2].message, "'" + (folder / "list.txt").string() + "': it is larger than 1 MiB");
}

TEST(AnnotationFiles, FilesThatAreNotUtf8AreReportedByFormat) {
  using namespace std::string_literals;
  const TemporaryFolder folder;
  const std::pair<std::string, const char*> files_as[] = {
      {"\xff\xfe\x66\0i\0"s, "UTF-16 text"},
      {"\xfe\xff\0f\0i"s, "UTF-16 text"},
      {"f\0i\0l\0e\0"s, "UTF-16 text"},
      {"\x1f\x8b\x08\0"s, "compressed with gzip"},
      {"PK\3\4"s, "a zip archive, such as an .xlsx file"},
  };
  for (const auto& [bytes, what] : files_as) {
    folder.write("t.csv", bytes);
    AnnotationFiles files(folder.path());
    EXPECT_EQ(files.read("t.csv", 100), std::nullopt);
    ASSERT_FALSE(files.is_faultless());
    EXPECT_EQ(files.errors().front().message,
              "'" + (folder / "t.csv").string() + "': it is " + what);
  }
  for (const std::string& bytes : {""s, "\xef\xbb\xbf\x66ile"s, "a\0\0\0b"s, "\0\0\0\0"s}) {
    folder.write("t.csv", bytes);
    EXPECT_EQ(AnnotationFiles(folder.path()).read("t.csv", 100), bytes);
  }
}

}  // namespace
}  // namespace stages
