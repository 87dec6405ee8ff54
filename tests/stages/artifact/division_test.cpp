#include "stages/artifact/division.h"

#include <fstream>

#include <gtest/gtest.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

Division flowers() {
  Division division{.root = "/data/with blank\n and line",
                    .drawn_by = "shares 0.8, 0, 0.2 with seed 4",
                    .classes = {},
                    .parts = {}};
  division.classes["*"] = {"daisy", "caf\xc3\xa9 au lait", "\\n", ""};
  division.parts["train"] = {
      {"daisy/a b.jpg", 12}, {"daisy/line\nfeed.jpg", 0}, {"daisy/back\\slash\\n.jpg", 7}};
  division.parts["test"] = {{"daisy/latin-1 \xe9.jpg", 1'000'000'000'000}};
  return division;
}

class DivisionFile : public testing::Test {
 protected:
  void write(const std::string& bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }
  runner::Diagnostics refusal() const {
    return refusals_of([&] { read_division(file_); });
  }
  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "division.gz";
};

TEST_F(DivisionFile, RoundTripKeepsAnyNames) {
  write(to_gzip(flowers()));
  EXPECT_EQ(read_division(file_), flowers());
}

TEST_F(DivisionFile, EqualSplitsAreWrittenAsEqualBytes) {
  EXPECT_EQ(to_gzip(flowers()), to_gzip(flowers()));
}

TEST_F(DivisionFile, EmptyFileIsAnEmptySplit) {
  write(to_gzip({}));
  EXPECT_EQ(read_division(file_), Division());
}

TEST_F(DivisionFile, TruncatedChangedOrMissingFileIsRejected) {
  EXPECT_REFUSED(refusal(), kDamagedRecord, "");
  const std::string bytes = to_gzip(flowers());
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{5}, bytes.size() / 2, bytes.size() - 1}) {
    write(bytes.substr(0, size));
    EXPECT_REFUSED(refusal(), kDamagedRecord, "") << size;
  }
  std::string other = bytes;
  other[bytes.size() / 2] ^= 4;
  write(other);
  EXPECT_REFUSED(refusal(), kDamagedRecord, "");
  write("retort division 1\n");
  EXPECT_REFUSED(refusal(), kDamagedRecord, "");
}

}  // namespace
}  // namespace stages
