#include "runner/parent/serve/page_events.h"

#include <gmock/gmock.h>

#include "runner/parent/serve/run_list_document.h"
#include "runner/shared/record/recorded_run.h"
#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

constexpr char kReport[] = "event: report\ndata: changed\n\n";

/// A list or a sweep that is open in a browser.
class PageEvents : public testing::Test {
 protected:
  using Events = std::function<std::optional<std::string>()>;
  using Query = std::map<std::string, std::string>;

  /// Follows the list that the query selects, from its current version.
  Events follow_list(Query query = {}) {
    (void)catalog_.refresh();
    PageRequest request{.method = "GET", .path = "/", .query = std::move(query)};
    request.query["seen"] = page_version(run_list_document(catalog_, request));
    return list_events(catalog_, request);
  }
  void write(const std::string& run, const std::string& status = "finished") {
    write_run(folder_, run, "0.5", "model.lora", status);
    (void)catalog_.refresh();
  }
  /// The journal of a sweep with two trials and these further lines.
  void write_journal(const std::string& lines = "") {
    folder_.write("s/sweep.jsonl",
                  R"({"sweep": 1, "recipe": "probe", "overrides": ["seed=1,2"], "folder": ".",)"
                  R"( "trials": [{"number": 0, "hash": "a", "settings": ["seed=1"]},)"
                  R"( {"number": 1, "hash": "b", "settings": ["seed=2"]}]})"
                  "\n" +
                      lines);
  }

  TemporaryFolder folder_;
  RunCatalog catalog_{{.folders = {folder_.path()}}, ""};
};

TEST_F(PageEvents, ListReportsARunThatEndsAndOneThatAppears) {
  const auto lock = [&] {
    write("a", "running");
    return RunLock::take(folder_ / "a");
  }();
  ASSERT_TRUE(lock) << "without a lock, the run counts as killed";
  const Events next = follow_list();
  EXPECT_EQ(next(), "") << "nothing has changed";
  write("a");
  EXPECT_EQ(next(), kReport);
  const Events another = follow_list();
  write("b");
  EXPECT_EQ(another(), kReport);
}

TEST_F(PageEvents, FilteredListIgnoresOtherRows) {
  write("a");
  write("b");
  const Events of_b = follow_list({{"text", "/b"}}), of_all = follow_list();
  write("a", "failed");
  EXPECT_EQ(of_all(), kReport);
  EXPECT_EQ(of_b(), "");
}

TEST_F(PageEvents, ChangeBeforeTheFirstCallIsReported) {
  write("a");
  const Events next = follow_list();
  write("a", "failed");
  EXPECT_EQ(next(), kReport);
}

TEST_F(PageEvents, ReportsAreAtLeastFiveCallsApart) {
  write("a");
  const Events next = follow_list();
  write("a", "failed");
  EXPECT_EQ(next(), kReport);
  write("a");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(next(), "") << i;
  EXPECT_EQ(next(), kReport);
}

TEST_F(PageEvents, SweepReportsItsJournalAndItsTrials) {
  write_journal();
  write("s/0");
  write("other");
  ASSERT_EQ(catalog_.contents()->sweeps.size(), 1u);
  const std::string id = catalog_.contents()->sweeps[0]->id;
  const auto follow = [&] {
    const auto contents = catalog_.contents();
    return sweep_events(catalog_, id, page_version(*contents, *contents->sweep(id)));
  };
  const Events first = follow();
  write("other", "failed");
  EXPECT_EQ(first(), "") << "it is not a trial";
  write("s/0", "failed");
  EXPECT_EQ(first(), kReport);
  const Events second = follow();
  write_journal(R"({"trial": 1, "event": "started"})"
                "\n");
  EXPECT_EQ(second(), kReport);
  std::filesystem::remove_all(folder_ / "s");
  (void)catalog_.refresh();
  EXPECT_EQ(second(), std::nullopt);
}

}  // namespace
}  // namespace runner
