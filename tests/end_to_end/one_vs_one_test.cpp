// End-to-end tests of one-vs-one ensembles: ten networks that each distinguish two classes, and
// vote.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// Tests that share a run of ten networks, `whole`.
class OneVsOne : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 5 --per-class 8 --size 16 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write(
        "r.yaml",
        "schema: 1\n"
        "defaults: [{data: image_folder}, {model: tiny}, {memory: auto}, {train: one_vs_one}, "
        "{evaluate: pairwise_ensemble}, _self_]\n"
        "data: {root: photos, image_size: 16, split: {train: 0.5, validation: 0.25, test: 0.25}}\n"
        "model: {patch_size: 8, num_hidden_layers: 1, hidden_size: 16, intermediate_size: 32, "
        "num_attention_heads: 2}\n"
        "train: {epochs: 2, batch_size: 4, patience: null, stop_at_accuracy: null, log_every: 1, "
        "checkpoint: {every: {steps: 1}}, optimizer: {learning_rate: 1.0e-2}}\n"
        "evaluate: {bootstrap: 20}\n");
    const Ended ended = run("run.dir=whole");
    ASSERT_EQ(ended.exit, 0) << ended.err;
    folder_.keep();
  }
  Ended run(const std::string& overrides, const std::string& fault = "") const {
    return run_shell((fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') + RETORT_BINARY_DIR +
                         "/bin/retort run r.yaml --no-reuse -q " + overrides,
                     folder_.path());
  }
  /// The weights that each training of `run` keeps, by node.
  std::map<std::string, std::string> networks(const std::string& run) const {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_ / (run + "/nodes"))) {
      const std::string node = entry.path().filename();
      if (!node.starts_with("train.")) continue;
      std::string best = file_text(entry.path() / "checkpoints/best");
      if (!best.empty()) best.pop_back();
      found[node] = file_text(entry.path() / "checkpoints" / best / "model.safetensors");
    }
    return found;
  }
  /// The metrics of a node in recording order, without times and memory.
  std::vector<std::string> metrics_of(const std::string& run, const std::string& node) const {
    std::vector<std::string> found;
    std::istringstream lines(file(run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      json one = json::parse(line);
      const std::string name = one.at("name");
      if (one.at("node") != node || name.starts_with("memory/") || name.find("second") != name.npos)
        continue;
      one.erase("time");
      found.push_back(one.dump());
    }
    return found;
  }
  std::string file(const std::string& path) const { return file_text(folder_ / path); }
  json record(const std::string& run) const {
    return json::parse(file(run + "/nodes/evaluate/metrics.json"));
  }

  SharedFolder folder_;
};

TEST_F(OneVsOne, TenNetworksVote) {
  EXPECT_EQ(networks("whole").size(), 10u);
  const json metrics = record("whole");
  EXPECT_EQ(metrics.at("pairs").size(), 10u);
  EXPECT_EQ(metrics.at("samples"), 10);
  for (const char* rule :
       {"majority", "soft", "accuracy_weighted", "confidence_weighted", "pairwise_coupling"})
    EXPECT_TRUE(metrics.at("rules").at(rule).contains("quadratic_kappa")) << rule;
  EXPECT_EQ(json::parse(file("whole/summary.json")).at("status"), "finished");
  // Loaded in another process, the same networks cast the same votes.
  const Ended again = retort("evaluate whole run.dir=again -q", folder_.path());
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(file("again/nodes/evaluate/pair_logits.csv"),
            file("whole/nodes/evaluate/pair_logits.csv"));
  EXPECT_EQ(file("again/nodes/evaluate/predictions.csv"),
            file("whole/nodes/evaluate/predictions.csv"));
  // An evaluation may use another decision rule and another tie-break.
  const Ended other =
      retort("evaluate whole run.dir=other evaluate.decide_by=soft evaluate.tie_break=lowest -q",
             folder_.path());
  ASSERT_EQ(other.exit, 0) << other.err;
  EXPECT_EQ(record("other").at("decided_by"), "soft");
  EXPECT_EQ(record("other").at("rules").at("soft").at("accuracy"),
            metrics.at("rules").at("soft").at("accuracy"));
}

// The network of a class pair depends only on its own training, not on the number of pairs or on
// those before it.
TEST_F(OneVsOne, EachPairTrainsIndependently) {
  const auto ten = networks("whole");
  for (const std::string pair : {"0,1", "1,3", "3,4"}) {
    const std::string name = "train." + pair.substr(0, 1) + "-" + pair.substr(2);
    const Ended alone =
        run("--only " + name + " 'train.foreach.pair=[[" + pair + "]]' run.dir=alone-" + name);
    ASSERT_EQ(alone.exit, 0) << alone.err;
    EXPECT_TRUE(networks("alone-" + name).at(name) == ten.at(name)) << name;
  }
  const std::set<std::string> different = [&] {
    std::set<std::string> weights;
    for (const auto& [node, text] : ten) weights.insert(text);
    return weights;
  }();
  EXPECT_EQ(different.size(), 10u);
}

// Each of several concurrent trials trains one network; the last trial reuses all networks.
TEST_F(OneVsOne, TrialsOfASweepTrainPairs) {
  std::string nodes;
  for (const char* pair : {"0-1", "0-2", "0-3", "0-4", "1-2", "1-3", "1-4", "2-3", "2-4", "3-4"})
    nodes += "train." + std::string(pair) + ",";
  const std::string same = "seed=77 threads=1 ";
  const Ended swept = retort(
      "sweep r.yaml " + same + "run.only=" + nodes + "null sweep.dir=swept --slots 2 --reuse -q",
      folder_.path());
  ASSERT_EQ(swept.exit, 0) << swept.err;
  ASSERT_EQ(run(same + "run.dir=same").exit, 0);
  EXPECT_TRUE(networks("swept/10") == networks("same"));
  for (const auto& [node, weights] : networks("swept/10"))
    EXPECT_TRUE(fs::exists(folder_ / ("swept/10/nodes/" + node + "/reused.json"))) << node;
  EXPECT_EQ(networks("swept/3").size(), 1u);
  EXPECT_EQ(file("swept/10/nodes/evaluate/predictions.csv"),
            file("same/nodes/evaluate/predictions.csv"));
}

// Kills a run between pairs, within one, and while weights are written.
TEST_F(OneVsOne, RunKilledAtSampledPointsResumesToTheSameResult) {
  const auto whole = networks("whole");
  std::vector<std::string> faults = {"step:9", "rename:40", "sync:90"};
  if (std::getenv("RETORT_DEEP"))
    faults.insert(faults.end(), {"step:3", "step:22", "write:200", "event:300"});
  int struck = 0;
  for (const std::string& fault : faults) {
    SCOPED_TRACE(fault);
    fs::remove_all(folder_ / "run");
    const Ended killed =
        run("run.dir=run memory.max_retries=0", "retort-worker/" + fault + ":kill_both");
    if (killed.exit == 0) continue;
    ++struck;
    usleep(200'000);
    const Ended resumed = retort("resume run -q", folder_.path());
    ASSERT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_TRUE(networks("run") == whole);
    EXPECT_EQ(file("run/nodes/evaluate/predictions.csv"),
              file("whole/nodes/evaluate/predictions.csv"));
  }
  EXPECT_GE(struck, std::getenv("RETORT_DEEP") ? 5 : 2);
}

TEST_F(OneVsOne, PairCanBeResetAndTrainedAgain) {
  const auto before = networks("whole");
  const std::string votes = file("whole/nodes/evaluate/predictions.csv");
  const auto measured = [&] { return metrics_of("whole", "train.1-3"); };
  const auto numbers = measured();
  const Ended reset = retort("runs reset whole --node train.1-3", folder_.path());
  ASSERT_EQ(reset.exit, 0) << reset.err;
  EXPECT_EQ(reset.out,
            "'train.1-3' has been reset; these must run again too: evaluate; `retort resume whole` "
            "runs whatever is missing\n");
  const Ended status = retort("runs status whole --json", folder_.path());
  ASSERT_EQ(status.exit, 0) << status.err;
  const json result = json::parse(status.out).at("result");
  int done = 0;
  for (const json& node : result.at("nodes")) {
    done += node.at("state") == "done";
    if (node.at("node") == "train.1-3" || node.at("node") == "evaluate") {
      EXPECT_EQ(node.at("state"), "missing");
      continue;
    }
    EXPECT_EQ(node.at("epoch"), 2);
    EXPECT_TRUE(node.at("best").is_number()) << node;
  }
  EXPECT_EQ(done, 9);
  const Ended resumed = retort("resume whole -q", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_TRUE(networks("whole") == before);
  EXPECT_EQ(file("whole/nodes/evaluate/predictions.csv"), votes);
  EXPECT_EQ(measured(), numbers);
}

TEST_F(OneVsOne, AllNetworksPredictTogether) {
  const Ended csv = retort("predict whole photos -q", folder_.path());
  ASSERT_EQ(csv.exit, 0) << csv.err;
  EXPECT_THAT(csv.out, testing::StartsWith("file,prediction,tied,margin,votes_"));
  EXPECT_EQ(std::ranges::count(csv.out, '\n'), 41);
  const Ended lines = retort("predict whole photos --json", folder_.path());
  ASSERT_EQ(lines.exit, 0) << lines.err;
  // Predictions for test images are the same as in the evaluation.
  std::map<std::string, json> said;
  std::istringstream text(lines.out);
  for (std::string line; std::getline(text, line);) {
    const json item = json::parse(line, nullptr, false);
    if (item.is_object() && item.contains("votes"))
      said[fs::relative(item.at("file").get<std::string>(), "photos")] = item;
  }
  std::istringstream rows(file("whole/nodes/evaluate/predictions.csv"));
  std::string row;
  std::getline(rows, row);
  int compared = 0;
  while (std::getline(rows, row)) {
    std::istringstream fields(row);
    std::string name, grade, prediction, tied;
    std::getline(fields, name, ',');
    std::getline(fields, grade, ',');
    std::getline(fields, prediction, ',');
    std::getline(fields, tied, ',');
    const auto found = said.find(name);
    if (found == said.end()) continue;
    ++compared;
    EXPECT_EQ(found->second.at("prediction"), prediction) << name;
    EXPECT_EQ(found->second.at("tied").dump(), tied) << name;
  }
  EXPECT_EQ(compared, 10);
  const Ended one = retort("predict whole photos --node train.0-1 -q", folder_.path());
  EXPECT_EQ(one.exit, 0) << one.err;
  EXPECT_THAT(one.out, testing::StartsWith("file,class_1,probability_1,class_2,probability_2\n"));
  const Ended refused = retort("predict whole photos --explain why -q", folder_.path());
  EXPECT_NE(refused.exit, 0);
  EXPECT_THAT(refused.err, HasSubstr("the model of 'model' has no feature maps"));
}

TEST_F(OneVsOne, MissingPairIsRejectedBeforeTheRun) {
  const Ended ended = run(
      "'train.foreach.pair=[[0,1],[0,2],[1,2],[0,3],[1,3],[2,3],[0,4],[1,4],[2,4]]' run.dir=nine");
  EXPECT_NE(ended.exit, 0);
  EXPECT_THAT(ended.err,
              HasSubstr("the ensemble needs one network for each class pair; there is none for '"));
  EXPECT_FALSE(fs::exists(folder_ / "nine"));
}

}  // namespace
