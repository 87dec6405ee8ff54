#include "stages/data/image_files.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

TEST(ImageRoot, FullyResolvedLinksMustStayInside) {
  const TemporaryFolder folder;
  for (const char* file : {"data/a.jpg", "data/sub/b.jpg", "data2/c.jpg", "d.jpg"})
    folder.write(file, "picture");
  const auto link = [&](const char* to, const char* name) {
    fs::create_symlink(to, folder / name);
  };
  link("../a.jpg", "data/sub/inside.jpg");
  link("sub/inside.jpg", "data/twice.jpg");
  link("../d.jpg", "data/above.jpg");
  link("../data2/c.jpg", "data/beside.jpg");  // a folder with a name that begins like the root's
  link("above.jpg", "data/by_another.jpg");
  link("nowhere", "data/broken.jpg");
  ImageRoot root(folder / "data", /*allow_outside=*/false);
  for (const char* inside : {"a.jpg", "sub/inside.jpg", "twice.jpg", "sub/../a.jpg"})
    EXPECT_TRUE(root.follows(inside)) << inside;
  for (const char* outside :
       {"above.jpg", "beside.jpg", "by_another.jpg", "../d.jpg", "sub/../../d.jpg"})
    EXPECT_FALSE(root.follows(outside)) << outside;
  EXPECT_FALSE(root.follows("broken.jpg"));
  runner::Diagnostics errors;
  root.report(errors);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].code, runner::ErrorCode::kOutsideRoot);
  EXPECT_EQ(errors[1].code, runner::ErrorCode::kMissingImage);
}

TEST(ImageRoot, RootMayBeALink) {
  const TemporaryFolder folder;
  folder.write("real/a.jpg", "picture");
  fs::create_symlink("a.jpg", folder / "real/b.jpg");
  fs::create_directory_symlink("real", folder / "data");
  EXPECT_TRUE(ImageRoot(folder / "data", false).follows("b.jpg"));
}

TEST(ImageRoot, AllowOutsidePermitsLinksOutOfTheRoot) {
  const TemporaryFolder folder;
  folder.write("d.jpg", "picture");
  folder.write("data/a.jpg", "picture");
  fs::create_symlink("../d.jpg", folder / "data/above.jpg");
  EXPECT_TRUE(ImageRoot(folder / "data", true).follows("above.jpg"));
}

}  // namespace
}  // namespace stages
