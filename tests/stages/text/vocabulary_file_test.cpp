#include "stages/text/tokenizer.h"

#include <zlib.h>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using runner::ErrorCode;

std::filesystem::path gzipped(const TemporaryFolder& folder, const std::string& text) {
  const auto path = folder / "packed";
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return path;
}

std::string refusal_of(const std::filesystem::path& file,
                       ErrorCode code = ErrorCode::kDamagedWeights) {
  const auto text = read_vocabulary_file(file);
  if (text) return "";
  EXPECT_EQ(text.errors().front().code, code);
  const std::string message = text.errors().front().message, name = "'" + file.string() + "' ";
  return message.starts_with(name) ? message.substr(name.size()) : message;
}

TEST(VocabularyFile, IsReadPlainAndCompressed) {
  const TemporaryFolder folder;
  EXPECT_EQ(*read_vocabulary_file(folder.write("a.gz", "plain, whatever its name")),
            "plain, whatever its name");
  EXPECT_EQ(*read_vocabulary_file(folder.write("empty", "")), "");
  const std::string text(300'000, 'x');
  EXPECT_EQ(*read_vocabulary_file(gzipped(folder, text)), text);
}

TEST(VocabularyFile, IsRefusedWhereItIsNoneOrDamaged) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal_of(folder / "none", ErrorCode::kMissingWeights),
            "there is no file '" + (folder / "none").string() + "'");
  EXPECT_EQ(refusal_of(folder.path()), "is not a file");
  const auto whole = gzipped(folder, "some text that is long enough to be cut off");
  const std::string bytes = folder.read("packed");
  EXPECT_EQ(refusal_of(folder.write("cut", bytes.substr(0, bytes.size() - 12))),
            "is damaged: it cannot be decompressed");
  std::string other = bytes;
  other[other.size() - 6] ^= 1;  // of its check sum
  EXPECT_EQ(refusal_of(folder.write("other", other)), "is damaged: it cannot be decompressed");
}

TEST(VocabularyFile, IsBoundedInBothForms) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal_of(folder.write("long", std::string(kMaxVocabularyBytes + 1, 'x'))),
            "is longer than 16 MiB");
  EXPECT_EQ(refusal_of(gzipped(folder, std::string(kMaxVocabularyBytes + 1, 'x'))),
            "is longer than 16 MiB");
}

}  // namespace
}  // namespace stages
