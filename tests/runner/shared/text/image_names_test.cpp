#include "runner/shared/text/image_names.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(ImageNames, ExtensionDecidesRegardlessOfCase) {
  for (const char* name : {"a.jpg", "a.JPEG", "b.c.PnG", "ä.webp"})
    EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"", "jpg", ".jpg", ".a.jpg", "a.jpg.txt", "a.jp", "a.gif", "a."})
    EXPECT_FALSE(is_image_name(name)) << name;
  for (const char* name : {"a.gif", "a.TIFF", "a.bmp", "a.heic"})
    EXPECT_TRUE(is_other_image_name(name)) << name;
  for (const char* name : {"a.jpg", ".a.gif", "a.txt"})
    EXPECT_FALSE(is_other_image_name(name)) << name;
}

TEST(NotTaken, EmptyCountsHaveNoText) { EXPECT_EQ(NotTaken().text(), ""); }

TEST(NotTaken, CountsByExtensionMostFrequentFirst) {
  NotTaken counts;
  for (const char* name :
       {"a.svg", "b.txt", "c.TXT", "README", "d.gif", ".DS_Store", ".retort-made.json"})
    counts.file(name);
  counts.folder(".git");
  counts.folder("deeper");
  counts.folder("other");
  EXPECT_EQ(counts.text(),
            "5 files ignored: 2 .txt, 1 without an extension, 1 .gif, 1 .svg; 1 hidden file; 2 "
            "folders not searched; 1 hidden folder");
  EXPECT_EQ(counts.other_images(), "1 .gif");
  EXPECT_EQ(counts.count_other_images(), 1);
}

TEST(NotTaken, SingleHiddenFolderIsReported) {
  NotTaken counts;
  counts.folder(".hidden");
  EXPECT_EQ(counts.text(), "ignored: 1 hidden folder");
}

TEST(NotTaken, LongListsAndExtensionsAreShortened) {
  NotTaken counts;
  for (char letter = 'a'; letter < 'n'; ++letter) counts.file(std::string("x.") + letter);
  counts.file("x." + std::string(500, 'z'));
  counts.file("y." + std::string(500, 'z'));
  EXPECT_EQ(counts.text(),
            "15 files ignored: 2 .zzzzzzzzzzzzzzzzzzz…, 1 .a, 1 .b, 1 .c, 1 .d, 1 .e, 1 .f, 1 .g, "
            "1 .h, 1 .i and 4 more");
}

}  // namespace
}  // namespace runner
