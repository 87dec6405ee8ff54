#include "stages/text/tokenizer.h"

#include <zlib.h>

#include <gtest/gtest.h>

#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

std::filesystem::path gzipped(const TemporaryFolder& folder, const std::string& text) {
  const auto path = folder / "packed";
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return path;
}

runner::Diagnostics refusal_of(const std::filesystem::path& file) {
  return refusals_of([&] { return read_vocabulary_file(file); });
}

TEST(VocabularyFile, IsReadPlainAndCompressed) {
  const TemporaryFolder folder;
  EXPECT_EQ(*read_vocabulary_file(folder.write("a.gz", "plain, whatever its name")),
            "plain, whatever its name");
  EXPECT_EQ(*read_vocabulary_file(folder.write("empty", "")), "");
  const std::string text(300'000, 'x');
  EXPECT_EQ(*read_vocabulary_file(gzipped(folder, text)), text);
}

TEST(VocabularyFile, InvalidOrDamagedFileIsRejected) {
  const TemporaryFolder folder;
  EXPECT_REFUSED(refusal_of(folder / "none"), kMissingWeights, "", (folder / "none").string());
  EXPECT_REFUSED(refusal_of(folder.path()), kDamagedWeights, "", "not a file");
  const auto whole = gzipped(folder, "some text that is long enough to be cut off");
  const std::string bytes = folder.read("packed");
  EXPECT_REFUSED(refusal_of(folder.write("cut", bytes.substr(0, bytes.size() - 12))),
                 kDamagedWeights, "", "decompressed");
  std::string other = bytes;
  other[other.size() - 6] ^= 1;  // in its checksum
  EXPECT_REFUSED(refusal_of(folder.write("other", other)), kDamagedWeights, "", "decompressed");
}

TEST(VocabularyFile, SizeIsLimitedInBothForms) {
  const TemporaryFolder folder;
  EXPECT_REFUSED(refusal_of(folder.write("long", std::string(kMaxVocabularyBytes + 1, 'x'))),
                 kDamagedWeights, "", "16 MiB");
  EXPECT_REFUSED(refusal_of(gzipped(folder, std::string(kMaxVocabularyBytes + 1, 'x'))),
                 kDamagedWeights, "", "16 MiB");
}

}  // namespace
}  // namespace stages
