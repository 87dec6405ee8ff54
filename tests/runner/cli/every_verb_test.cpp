// What holds for every verb of the table of commands, by a command line of each that ends well.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/cli/command.h"
#include "tests/support/fake_installation.h"
#include "tests/support/program.h"

namespace runner {
namespace {

struct GoodLine {
  std::string verb, arguments;
  std::string events = "";  ///< what its worker says before its last event, a word each to a shell
};

void PrintTo(const GoodLine& line, std::ostream* out) { *out << "retort " << line.arguments; }

std::string answering(const std::string& answer) {
  return "hello read " + quoted(R"(line:{"event":"answer","answer":)" + answer + "}");
}

const std::string kLogged = " " + quoted(R"(line:{"event":"log","level":"debug","node":"","line":"3 kernels"})");
const std::string kRunning = "hello read ready read";
const std::string kCertificate =
    R"({"schema":1,"node":"train","compared":"all","holds":true,"worst":0,"limit":1e-12,"parameters":[{"name":"w","relative_error":0}],"changed":[],"refused":""})";

/// At least one of each verb, and of each form of its results.
std::vector<GoodLine> good_lines() {
  const std::string predicted =
      "line:{\"event\":\"item\",\"item\":{\"file\":\"x.jpg\",\"classes\":[{\"class\":\"a\","
      "\"probability\":1.0}]}}";
  return {
      {"run", "run quickstart run.dir=r", kRunning},
      {"run", "run quickstart --cfg job"},
      {"run", "run quickstart -m seed=1,2 --dry-run"},
      {"resume", "resume finished"},
      {"resume", "resume stopped", kRunning},
      {"evaluate", "evaluate finished run.dir=e", kRunning},
      {"predict", "predict finished x.jpg",
       "hello read " + quoted(predicted) + " " + quoted(R"(line:{"event":"answer","answer":{}})")},
      {"export", "export finished --merged --out o", answering(R"({"files":["model.safetensors"]})")},
      {"analyze", "analyze finished"},
      {"compare", "compare finished finished"},
      {"sweep", "sweep quickstart seed=1,2 --dry-run"},
      {"plan", "plan quickstart", answering(R"({"plans":[],"certificates":[],"reuse":[]})")},
      {"certify", "certify quickstart",
       answering(R"({"plans":[],"certificates":[)" + kCertificate + R"(],"reuse":[]})")},
      {"validate", "validate quickstart"},
      {"graph", "graph quickstart"},
      {"graph", "graph quickstart --format dot"},
      {"config", "config show quickstart"},
      {"config", "config show quickstart --origin"},
      {"config", "config show quickstart --explain train.epochs"},
      {"config", "config show quickstart --info defaults"},
      {"config", "config show quickstart --info defaults-tree"},
      {"config", "config show quickstart --info searchpath"},
      {"config", "config diff quickstart seed=9"},
      {"stages", "stages"},
      {"schema", "schema train.supervised"},
      {"schema", "schema --editor train"},
      {"explain", "explain train.epochs"},
      {"explain", "explain train.supervised"},
      {"explain", "explain train/optimizer"},
      {"explain", "explain E0301"},
      {"init", "init new.yaml"},
      {"data", "data make image_folder --out d", answering(R"({"folder":"d","images":2})")},
      {"data", "data fetch cub200", answering(R"({"folder":"data/cub200","files":2,"was_there":false})")},
      {"data", "data fetch hf:a/b",
       answering(R"({"folder":"a/b","commit":"c","files":[{"name":"config.json","size":2}]})")},
      {"doctor", "doctor", answering(R"({"libtorch":"2.11.0","threads":2,"cpu_capability":"AVX2","devices":[]})")},
      {"doctor", "doctor memory", answering(R"({"checks":[{"name":"x","passed":true,"found":"y"}],"passed":true})")},
      {"doctor", "doctor determinism quickstart", answering(R"({"steps":1,"tensors":1,"difference":null})")},
      {"completion", "completion bash"},
  };
}

std::string test_name(const testing::TestParamInfo<GoodLine>& info) {
  std::string name = info.param.arguments;
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

class EveryVerb : public testing::TestWithParam<GoodLine> {
 protected:
  EveryVerb() {
    for (const std::string run : {"finished", "stopped"}) {
      folder_.write(run + "/.retort/run.json", R"({"schema": 1})");
      folder_.write(run + "/.retort/environment.json", R"({"device": "cpu", "threads": 1})");
      folder_.write(run + "/.retort/recipe.yaml",
                    "schema: 1\nname: probe\ndata: {kind: data.image_folder, root: photos}\n"
                    "model: {kind: model.linear_probe}\nmemory: {kind: memory.policy}\n"
                    "train: {kind: train.supervised, epochs: 2, optimizer: {learning_rate: 0.001}}\n"
                    "evaluate: {kind: evaluate.classification}\n");
      folder_.write(run + "/summary.json",
                    R"({"schema": 1, "recipe": "probe", "seconds": 1, "status": ")" + run + "\"}");
      folder_.write(run + "/nodes/evaluate/metrics.json",
                    R"({"top1": 0.5, "top1_interval": {"low": 0.15, "high": 0.85}, "mean_per_class": 0.5,)"
                    R"( "log_loss": 1.5, "samples": 4, "smoke": false, "confusion_matrix": null, "per_class": []})");
      folder_.write(run + "/nodes/train/checkpoints/step-00000004/manifest.json", "{}");
    }
  }

  /// Runs the line, with `more` after it, as a shell reads it.
  Ended run(const std::string& more) const {
    const TemporaryFolder beside;
    std::string worker = GetParam().events.empty() ? "exit:1" : GetParam().events + " finished:0";
    if (const std::size_t at = worker.find(" read"); at != worker.npos) worker.insert(at + 5, kLogged);
    return run_shell(install_with_worker(beside.path(), worker).string() + " " + GetParam().arguments + more,
                     folder_.path());
  }

  TemporaryFolder folder_;
};

TEST(FileSizeLimit, IsTheUsersAndLeavesNothingHalfWritten) {
  const TemporaryFolder folder, beside;
  const std::string program = install_with_worker(beside.path(), "exit:1").string();
  const Ended ended = run_shell("ulimit -f 1; " + program + " init || echo $? >code; cat recipe.yaml; " + program +
                                    " config show quickstart --resolve >config || echo $? >>code",
                                folder.path());
  EXPECT_EQ(file_text(folder / "code"), "74\n74\n");
  EXPECT_THAT(ended.err, testing::HasSubstr("cannot write 'recipe.yaml': File too large\n  help: it has reached the "
                                            "size that a file may have here: raise the limit with `ulimit -f`\n"));
  EXPECT_THAT(ended.err, testing::HasSubstr("error[E0802]: cannot write to standard output: File too large\n"));
  EXPECT_FALSE(std::filesystem::exists(folder / "recipe.yaml"));
}

TEST(EveryVerbTable, NamesEveryVerb) {
  std::set<std::string> tried, known;
  for (const GoodLine& line : good_lines()) tried.insert(line.verb);
  for (const Command* command : all_commands()) known.emplace(command->name);
  EXPECT_EQ(tried, known);
}

TEST_P(EveryVerb, EndsWell) {
  const Ended ended = run("");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_NE(ended.out, "");
}

TEST_P(EveryVerb, EndsWith74WhereItsResultsCannotBeWritten) {
  const Ended ended = run(" >/dev/full");
  EXPECT_EQ(ended.exit, 74) << ended.err;
  EXPECT_THAT(ended.err, testing::EndsWith("error[E0802]: cannot write to standard output: No space left on device\n"));
}

TEST_P(EveryVerb, EndsWith74WithoutStandardOutput) {
  const Ended ended = run(" >&-");
  EXPECT_EQ(ended.exit, 74) << ended.err;
  EXPECT_THAT(ended.err, testing::EndsWith("error[E0802]: cannot write to standard output: Bad file descriptor\n"));
}

TEST_P(EveryVerb, EndsLikeCatWhereNobodyReadsItsResults) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  constexpr int kPipe = 9;  // of one digit, as some shells want it
  dup2(ends[1], kPipe);
  const Ended ended = run(" >&9");
  close(ends[1]);
  close(kPipe);
  EXPECT_EQ(ended.exit, 128 + SIGPIPE) << ended.err;
  EXPECT_THAT(ended.err, testing::Not(testing::HasSubstr("error")));
}

class EveryWorker : public EveryVerb {};

TEST_P(EveryWorker, ShowsItsLogWhereAsked) {
  const Ended ended = run(" --log-level debug");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const std::string shown =
      ended.err + folder_.read("r/log.txt") + folder_.read("e/log.txt") + folder_.read("stopped/log.txt");
  EXPECT_THAT(shown, testing::HasSubstr("3 kernels"));
  EXPECT_THAT(run(" --log-level loud").err, testing::HasSubstr("--log-level"));
}

std::vector<GoodLine> lines_with_workers() {
  std::vector<GoodLine> lines = good_lines();
  std::erase_if(lines, [](const GoodLine& line) { return line.events.empty(); });
  return lines;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryVerb, testing::ValuesIn(good_lines()), test_name);
INSTANTIATE_TEST_SUITE_P(Table, EveryWorker, testing::ValuesIn(lines_with_workers()), test_name);

}  // namespace
}  // namespace runner
