#include "stages/text/class_text.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(WordsOfFolder, SpacesReplaceUnderscoresAndHyphens) {
  EXPECT_EQ(words_of_folder("black-eyed_susan"), "black eyed susan");
  EXPECT_EQ(words_of_folder("daisy"), "daisy");
}

TEST(ClassText, NameIsInsertedUnchangedAtEachPlaceholder) {
  EXPECT_EQ(class_text("a photo of a {name}.", "Mercedes-Benz C_1"),
            "a photo of a Mercedes-Benz C_1.");
  EXPECT_EQ(class_text("{name} or {name}", "{name}"), "{name} or {name}");
}

TEST(ClassText, UnprintableCharactersAreReplacedAsInCaptions) {
  EXPECT_EQ(class_text("a {name}", "caf\xE9"), "a caf?");
}

TEST(ClassText, TextWithoutAPlaceholderIsRejected) {
  EXPECT_THROW(class_text("a photo", "daisy"), std::invalid_argument);
}

}  // namespace
}  // namespace stages
