#include "runner/parent/serve/run_list_document.h"

#include <gmock/gmock.h>

#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class RunList : public testing::Test {
 protected:
  Document list(const std::map<std::string, std::string>& query) {
    (void)catalog_.refresh();
    return run_list_document(catalog_, {.method = "GET", .path = "/", .query = query});
  }
  const Table& table(const Document& document) const {
    for (const Block& block : document.blocks)
      if (const auto* table = std::get_if<Table>(&block)) return *table;
    throw std::runtime_error("there is no table");
  }
  /// The names of the listed runs below the folder.
  std::vector<std::string> names(const std::map<std::string, std::string>& query) {
    std::vector<std::string> names;
    const Document document = list(query);
    const Table& rows = table(document);
    for (std::size_t i = 1; i < rows.rows.size(); ++i)
      names.push_back(rows.rows[i][0].substr(folder_.path().string().size() + 1));
    return names;
  }

  TemporaryFolder folder_;
  RunCatalog catalog_{{.folders = {folder_.path()}}, ""};
};

TEST_F(RunList, IsSelectedByStateTextAndFilter) {
  write_run(folder_, "a", "0.5");
  write_run(folder_, "b", "0.9", "model.full");
  write_run(folder_, "c", "0.7", "model.lora", "failed");
  EXPECT_THAT(names({{"sort", "run"}}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names({{"state", "failed"}}), ElementsAre("c"));
  EXPECT_THAT(names({{"text", "/b"}}), ElementsAre("b"));
  EXPECT_THAT(names({{"text", "accuracy>0.6 & model.kind=lora"}}), ElementsAre("c"));
  EXPECT_THAT(names({{"recipe", "other"}}), SizeIs(0));
}

TEST_F(RunList, IsSortedByItsColumns) {
  write_run(folder_, "a", "0.5");
  write_run(folder_, "b", "0.9");
  write_run(folder_, "c", "\"nan\"");
  EXPECT_THAT(names({{"sort", "result"}}), ElementsAre("b", "a", "c")) << "the best first";
  EXPECT_THAT(names({{"sort", "run"}, {"order", "down"}}), ElementsAre("c", "b", "a"));
  const Document document = list({{"sort", "run"}, {"state", "finished"}});
  const Table& rows = table(document);
  EXPECT_EQ(rows.rows[0][0], "run ▲");
  EXPECT_EQ(rows.links.at({0, 0}), "/?state=finished&sort=run&order=down");
  EXPECT_EQ(rows.links.at({0, 4}), "/?state=finished&sort=started&order=down");
}

TEST_F(RunList, HasAHundredRowsPerPage) {
  for (int i = 0; i < 101; ++i) write_run(folder_, "run" + std::to_string(1000 + i));
  EXPECT_THAT(names({{"sort", "run"}}), SizeIs(100));
  EXPECT_THAT(names({{"sort", "run"}, {"page", "2"}}), ElementsAre("run1100"));
  EXPECT_THAT(names({{"sort", "run"}, {"page", "99"}}), ElementsAre("run1100")) << "the last";
  const Document document = list({{"page", "2"}});
  EXPECT_THAT(std::get<Links>(document.blocks.back()).links,
              ElementsAre(std::pair("first", "/?sort=started&order=down"),
                          std::pair("previous", "/?sort=started&order=down"),
                          std::pair("page 2 of 2", "")));
}

TEST_F(RunList, InvalidFilterIsExplained) {
  write_run(folder_, "a");
  const Document document = list({{"text", "accuracy>"}});
  const auto* said = std::get_if<Paragraph>(&document.blocks[1]);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->text, "The filter is not valid: expected a value to compare 'accuracy' with");
}

TEST_F(RunList, ShowsMemoryAndTheValidationCurve) {
  write_run(folder_, "a");
  folder_.write("a/nodes/train/training_metrics.json",
                R"({"train_losses": [3, 2, 1], "val_losses": [2, 1.5, 1], "val_accuracies": []})");
  folder_.write("a/summary.json",
                R"({"schema": 1, "recipe": "probe", "status": "finished", "seconds": 9,)"
                R"( "nodes": [{"id": "train", "peak_memory_bytes": 2097152}], "metrics": {}})");
  const Document document = list({});
  const std::vector<std::string>& row = table(document).rows[1];
  EXPECT_EQ(row[6], "█▅▁");
  EXPECT_EQ(row[7], "–");
  EXPECT_EQ(row[8], "2.0 MiB");
}

}  // namespace
}  // namespace runner
