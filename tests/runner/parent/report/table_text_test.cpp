#include "runner/parent/report/table_text.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/terminal.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;

const TableRows kTrials = {{"trial", "state", "evaluate/top1", "model.backbone.name",
                            "train.optimizer.learning_rate", "data.root", "peak memory", "time"},
                           {"0", "finished", "0.8125", "vit_base_patch16_clip_224", "0.00012345678",
                            "/srv/photographs/flowers/102/images", "12.5 GiB", "1:02:03"},
                           {"1", "running, silent for 0:05:00", "0.7531", "tiny", "0.1", "photos",
                            "900.0 MiB", "0:01:10"}};

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, columns(line));
  return widest;
}

TEST(TableText, FitsCommonTerminalsWithoutCutNumbers) {
  for (const std::size_t width : {60, 80, 120}) {
    const std::string text = table_text(kTrials, width);
    EXPECT_LE(widest_line(text), width) << text;
    for (const char* number : {"0.8125", "0.7531", "0.00012345678", "0.1", "12.5 GiB", "900.0 MiB",
                               "1:02:03", "0:01:10"})
      EXPECT_THAT(text, HasSubstr(number)) << width;
  }
}

TEST(TableText, IsUnchangedIfItFits) {
  const std::string whole = table_text(kTrials);
  EXPECT_EQ(table_text(kTrials, widest_line(whole)), whole);
  EXPECT_NE(table_text(kTrials, widest_line(whole) - 1), whole);
}

TEST(TableText, TextWrapsBetweenWords) {
  EXPECT_EQ(
      table_text({{"needs", "note"}, {"1 MiB", "it returns unused blocks to the device"}}, 24),
      "needs  note\n"
      "1 MiB  it returns unused\n"
      "       blocks to the\n"
      "       device\n");
}

TEST(TableText, MiddleOfALongWordIsOmitted) {
  EXPECT_EQ(
      table_text({{"needs", "of"}, {"1 MiB", "encoder.blocks.11.attention.query.weight"}}, 29),
      "needs  of\n"
      "1 MiB  encoder.blo…ery.weight\n");
}

TEST(TableText, ShortenedWordsStayDistinct) {
  const TableRows rows = {{"metric", "value"},
                          {"evaluate/macro_precision", "0.5"},
                          {"evaluate/weighted_precision", "0.5"}};
  const std::string text = table_text(rows, 27);
  EXPECT_LE(widest_line(text), 27U) << text;
  EXPECT_THAT(text, HasSubstr("evaluate/m…"));
  EXPECT_THAT(text, HasSubstr("evaluate/w…"));
}

TEST(TableText, ColumnsThatDoNotFitAreShownBelow) {
  EXPECT_EQ(
      table_text({{"trial", "loss", "memory", "seconds"}, {"7", "0.5", "2.5 GiB", "12345"}}, 20),
      "trial  loss   memory\n"
      "    7   0.5  2.5 GiB\n"
      "\n"
      "trial  seconds\n"
      "    7    12345\n");
}

TEST(TableText, NumberWiderThanTheTerminalIsNotCut) {
  EXPECT_THAT(table_text({{"n", "loss"}, {"1", "0.123456789"}}, 5), HasSubstr("0.123456789"));
}

TEST(TableText, LayoutTerminatesForEveryWidth) {
  for (std::size_t width = 0; width < 200; ++width)
    EXPECT_THAT(table_text(kTrials, width), Not(testing::IsEmpty()));
}

TEST(TextStyle, OnlyATerminalLimitsTheTableWidth) {
  EXPECT_GT((TextStyle{.width = 60}.table_width()), std::size_t{1} << 40);
  EXPECT_EQ((TextStyle{.width = 60, .is_terminal = true}.table_width(4)), 56U);
  EXPECT_EQ((TextStyle{.width = 3, .is_terminal = true}.table_width(4)), 1U);
}

}  // namespace
}  // namespace runner
