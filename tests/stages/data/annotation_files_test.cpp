#include "stages/data/annotation_files.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

TEST(AnnotationFiles, FileLargerThanItMayBeIsNotRead) {
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

}  // namespace
}  // namespace stages
