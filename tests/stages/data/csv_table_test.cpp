#include "stages/data/csv_table.h"

#include <gmock/gmock.h>

#include "tests/support/image_lists.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CsvTableTest : public testing::Test {
 protected:
  /// Returns the rows: "3: a|b" is the row at line 3 with the fields a and b. Errors are added to
  /// `faults_`.
  std::vector<std::string> rows(const std::string& text) {
    folder_.write("table.csv", text);
    AnnotationFiles files(folder_.path(), "correct it");
    CsvTable table(files, "table.csv", 1 << 20);
    columns_ = table.columns();
    header_line_ = table.header_line();
    std::vector<std::string> result;
    table.for_rows([&](std::size_t line, const std::vector<std::string>& fields) {
      std::string row = std::to_string(line) + ": ";
      for (const std::string& field : fields) row += field + "|";
      row.pop_back();
      result.push_back(row);
    });
    faults_ = files.errors();
    return result;
  }
  TemporaryFolder folder_;
  std::vector<std::string> columns_;
  runner::Diagnostics faults_;
  std::size_t header_line_ = 0;
};

TEST_F(CsvTableTest, RowsHaveAFieldForEachColumn) {
  EXPECT_THAT(rows("make,model\nAudi,TT\nBMW,M3\n"), ElementsAre("2: Audi|TT", "3: BMW|M3"));
  EXPECT_THAT(columns_, ElementsAre("make", "model"));
  EXPECT_EQ(header_line_, 1u);
  EXPECT_THAT(faults_, testing::IsEmpty());
}

TEST_F(CsvTableTest, QuotedFieldsHoldCommasQuotesAndLineEnds) {
  EXPECT_THAT(rows("a,b\n\"x, y\",\"he said \"\"no\"\"\"\n\"first\nsecond\",\"\"\nlast,z\n"),
              ElementsAre("2: x, y|he said \"no\"", "3: first\nsecond|", "5: last|z"));
  EXPECT_THAT(faults_, testing::IsEmpty());
}

TEST_F(CsvTableTest, ByteOrderMarkAndCarriageReturnsAreIgnored) {
  EXPECT_THAT(rows("\xef\xbb\xbf\"a\",b\r\n1,2\r\n\r\n\"3\",4\r\n5,\"6\"\r\n7,\r\n"),
              ElementsAre("2: 1|2", "4: 3|4", "5: 5|6", "6: 7|"));
  EXPECT_THAT(columns_, ElementsAre("a", "b"));
  EXPECT_THAT(faults_, testing::IsEmpty());
}

TEST_F(CsvTableTest, LastLineNeedsNoLineEnd) {
  EXPECT_THAT(rows("a,b\n1,2"), ElementsAre("2: 1|2"));
  EXPECT_THAT(rows("a,b\n1,\"2\""), ElementsAre("2: 1|2"));
  EXPECT_THAT(rows("a,b\n1,"), ElementsAre("2: 1|"));
  EXPECT_THAT(rows("a,b\n1,2\r"), ElementsAre("2: 1|2"));
  EXPECT_THAT(faults_, testing::IsEmpty());
}

TEST_F(CsvTableTest, EmptyLinesAreSkipped) {
  EXPECT_THAT(rows("\n\r\na,b\n\n1,2\n\n\n3,4\n\n"), ElementsAre("5: 1|2", "8: 3|4"));
  EXPECT_EQ(header_line_, 3u);
}

TEST_F(CsvTableTest, RowsWithADifferentNumberOfFieldsAreErrors) {
  EXPECT_THAT(rows("a,b\n1\n1,2\n1,2,3\n"), ElementsAre("3: 1|2"));
  EXPECT_ALL_REFUSED(faults_, {kBadAnnotations, "", {"line 2", "1 fields"}},
                     {kBadAnnotations, "", {"line 4", "3 fields"}});
}

TEST_F(CsvTableTest, ReadingContinuesAfterAnUnclosedQuote) {
  EXPECT_THAT(rows("a,b\n\"x,1\ny,2\n\"z\"z,3\nw,4\n"), ElementsAre("3: y|2", "5: w|4"));
  EXPECT_ALL_REFUSED(faults_, {kBadAnnotations, "", {"line 2", "quotes"}},
                     {kBadAnnotations, "", {"line 4", "quotes"}});
}

TEST_F(CsvTableTest, EmptyTableHasNoColumns) {
  for (const char* const text : {"", "\n\n", "\xef\xbb\xbf"}) {
    EXPECT_THAT(rows(text), IsEmpty());
    EXPECT_THAT(columns_, IsEmpty());
    EXPECT_EQ(header_line_, 0u);
  }
  rows("\"a,b\n");
  EXPECT_THAT(columns_, IsEmpty());
  EXPECT_EQ(header_line_, 1u);
}

}  // namespace
}  // namespace stages
