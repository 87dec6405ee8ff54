#include "runner/shared/text/csv.h"

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::ElementsAre;

std::vector<std::vector<std::string>> all_lines(std::string_view text) {
  std::vector<std::vector<std::string>> lines;
  while (auto line = take_csv_line(text)) lines.push_back(*std::move(line));
  return lines;
}

TEST(CsvReader, ReadsWrittenFields) {
  const std::vector<std::string> fields = {"", "a,b", "say \"no\"", "two\nlines", "\r", "ä"};
  EXPECT_THAT(all_lines(csv_line(fields) + csv_line({"x"})), ElementsAre(fields, ElementsAre("x")));
}

TEST(CsvReader, EndsAtTheEndOfTheText) {
  EXPECT_THAT(all_lines(""), ElementsAre());
  EXPECT_THAT(all_lines("a,b"), ElementsAre(ElementsAre("a", "b")));
  EXPECT_THAT(all_lines("a,b\r\nc,\r\n"), ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "")));
  EXPECT_THAT(all_lines("\n"), ElementsAre(ElementsAre("")));
  EXPECT_THAT(all_lines("a,\"b\nc"), ElementsAre(ElementsAre("a", "b\nc"))) << "never closed";
}

}  // namespace
}  // namespace runner
