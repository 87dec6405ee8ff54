// Properties of every verb in the table of commands, each tested with a command line that succeeds.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "tests/support/fake_installation.h"
#include "tests/support/output_shape.h"
#include "tests/support/program.h"
#include "tests/support/text_case.h"

namespace runner {
namespace {

struct GoodLine {
  std::string verb, arguments;
  std::string events = "";  ///< the worker's output before the last event, as shell words
};

void PrintTo(const GoodLine& line, std::ostream* out) { *out << "retort " << line.arguments; }

std::string answering(const std::string& answer) {
  return "hello read " + quoted(R"(line:{"event":"answer","answer":)" + answer + "}");
}

const std::string kLogged =
    " " + quoted(R"(line:{"event":"log","level":"debug","node":"","line":"3 kernels"})");
const std::string kRunning = "hello read ready read";
const std::string kCertificate =
    R"({"schema":1,"node":"train","compared":"all","holds":true,"worst":0,"limit":1e-12,"parameters":[{"name":"w","relative_error":0}],"changed":[],"refused":""})";

const std::string kSurvey =
    R"({"node":"data","pointer":"/data","divided":true,"problems":[],"images":1,"bytes":9,"widths":[1,1,1],"heights":[1,1,1],"classes":["a"],)"
    R"("parts":[{"part":"train","images":1,"by_class":[1]}],"unreadable":{"count":0,"shown":[]},)"
    R"("identical":{"count":0,"shown":[],"across_parts":0,"several_classes":0},)"
    R"("alike":{"count":0,"shown":[],"across_parts":0,"several_classes":0},"patients":0,"without_patient":0,)"
    R"("shared_patients":{"count":0,"shown":[]},"subject":"","strangers":{"count":0,"shown":[]},"reduced":{"count":0,"shown":[]}})";

const std::string kLoss =
    R"({"event":"metric","node":"train","name":"train/epoch_loss","value":2.0,"step":4})";

/// A worker's recorded answer to `retort plan`.
std::string recorded_plan() {
  auto cases = read_cases(RETORT_SOURCE_DIR "/tests/cases/commands/plan.case");
  return nlohmann::ordered_json::parse(cases.front().sections["answer"]).dump();
}

/// At least one command line for each verb and for each form of its results.
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
      {"embed", "embed finished x.jpg --out o",
       answering(R"({"folder":"o","images":1,"failed":0,"width":8,"duplicates":0,"outliers":[],)"
                 R"("neighbors":[]})")},
      {"export", "export finished --merged --out o",
       answering(R"({"folder":"o","files":["model.safetensors"]})")},
      {"export", "export measured --tensorboard --out t"},
      {"analyze", "analyze finished"},
      {"analyze", "analyze finished finished"},
      {"report", "report finished"},
      {"report", "report finished --format md"},
      {"compare", "compare finished finished"},
      {"runs", "runs ls ."},
      {"runs", "runs ls . status=finished --sort train.epochs"},
      {"runs", "runs show finished"},
      {"runs", "runs diff finished stopped"},
      {"runs", "runs best . --metric train.epochs"},
      {"runs", "runs tag finished good"},
      {"runs", "runs rm stopped --yes"},
      {"runs", "runs reindex ."},
      {"compare", "compare finished stopped --all --paired"},
      {"runs", "runs status finished"},
      {"runs", "runs reset stopped --node train"},
      {"runs", "runs rerun finished run.dir=r", kRunning},
      {"runs", "runs reproduce measured run.dir=r", kRunning + " " + quoted("line:" + kLoss)},
      {"sweep", "sweep quickstart seed=1,2 --dry-run"},
      {"sweep", "sweep quickstart seed=1,2 sweep.dir=s", kRunning},
      {"watch", "watch finished"},
      {"plan", "plan quickstart", answering(recorded_plan())},
      {"certify", "certify quickstart",
       answering(R"({"plans":[],"certificates":[)" + kCertificate + R"(],"reuse":[]})")},
      {"validate", "validate quickstart"},
      {"graph", "graph quickstart"},
      {"graph", "graph quickstart --format dot"},
      {"graph", "graph quickstart --format svg"},
      {"config", "config show quickstart"},
      {"config", "config show quickstart --origin"},
      {"config", "config show quickstart --explain train.epochs"},
      {"config", "config show quickstart --info defaults"},
      {"config", "config show quickstart --info defaults-tree"},
      {"config", "config show quickstart --info searchpath"},
      {"config", "config diff quickstart seed=9"},
      {"stages", "stages"},
      {"stages", "stages --format md"},
      {"schema", "schema train.supervised"},
      {"schema", "schema --editor train"},
      {"explain", "explain train.epochs"},
      {"explain", "explain train.supervised"},
      {"explain", "explain train/optimizer"},
      {"explain", "explain E0301"},
      {"init", "init new.yaml"},
      {"data", "data make image_folder --out d", answering(R"({"folder":"d","images":2})")},
      {"data", "data fetch cub200",
       answering(R"({"folder":"data/cub200","was_there":false,"received_bytes":9,"files":2})")},
      {"data", "data fetch hf:a/b",
       answering(
           R"({"folder":"a/b","commit":"c","received_bytes":2,"files":[{"name":"x","bytes":2,"was_there":false}]})")},
      {"data", "data check quickstart", answering(R"({"data":[)" + kSurvey + "]}")},
      {"devices", "devices"},
      {"devices", "devices --best"},
      {"doctor", "doctor",
       answering(R"({"libtorch":"2.11.0","threads":2,"cpu_capability":"AVX2","devices":[]})")},
      {"doctor", "doctor memory",
       answering(R"({"checks":[{"name":"x","passed":true,"found":"y"}],"passed":true})")},
      {"doctor", "doctor ranks --devices 3",
       answering(R"({"ranks":3,"sums":[{"bytes":8,"seconds":0.001}]})")},
      {"doctor", "doctor determinism quickstart",
       answering(R"({"steps":1,"tensors":1,"difference":null})")},
      {"lr-find", "lr-find quickstart",
       answering(
           R"({"stage":"/train","learning_rate":0.001,"batch_size":8,"diverged":false,"suggestion":0.02,"points":[{"step":1,"learning_rate":0.01,"loss":2,"smoothed_loss":2},{"step":2,"learning_rate":0.1,"loss":1,"smoothed_loss":1.5}]})")},
      {"trust", "trust net.py timm"},
      {"trust", "trust --list"},
      {"trust", "trust --remove timm"},
      {"completion", "completion bash"},
  };
}

std::string test_name(const testing::TestParamInfo<GoodLine>& info) {
  std::string name = info.param.arguments;
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

/// The whole of `out`, or its last document if it is JSON lines.
nlohmann::json last_document(const std::string& out) {
  if (nlohmann::json::accept(out)) return nlohmann::json::parse(out);
  const std::size_t end = out.find_last_not_of('\n');
  return nlohmann::json::parse(out.substr(out.rfind('\n', end) + 1), nullptr,
                               /*allow_exceptions=*/false);
}

/// A folder with a finished run, an unfinished run, and a run with nothing left but its metrics.
class RecordedRuns {
 public:
  RecordedRuns() {
    for (const std::string run : {"finished", "stopped", "measured"}) {
      folder_.write(run + "/.retort/run.json", R"({"schema": 1})");
      folder_.write(run + "/.retort/environment.json", R"({"device": "cpu", "threads": 1})");
      folder_.write(
          run + "/.retort/recipe.yaml",
          "schema: 1\nname: probe\ndata: {kind: data.image_folder, root: photos}\n"
          "model: {kind: model.linear_probe}\nmemory: {kind: memory.policy}\n"
          "train: {kind: train.supervised, epochs: 2, optimizer: {learning_rate: 0.001}}\n"
          "evaluate: {kind: evaluate.classification}\n");
      folder_.write(run + "/.retort/graph.json",
                    R"({"nodes": [{"id": "train", "kind": "train.supervised"}]})");
      folder_.write(
          run + "/summary.json",
          R"({"schema": 1, "recipe": "probe", "status": ")" +
              (run == "measured" ? "finished" : run) +
              R"(", "exit": 0, "started": "2026-01-31T12:00:00+0000", "seconds": 1, "nodes": [],)"
              R"( "metrics": {}, "diagnostics": []})");
      folder_.write(
          run + "/nodes/evaluate/metrics.json",
          R"({"top1": 0.5, "top1_interval": {"low": 0.15, "high": 0.85}, "mean_per_class": 0.5,)"
          R"( "log_loss": 1.5, "samples": 4, "smoke": false, "confusion_matrix": [[1, 0], [1, 2]],)"
          R"( "per_class": [{"class": "a", "precision": 0.5, "recall": 1, "f1": 0.6, "support": 1},)"
          R"( {"class": "b", "precision": 1, "recall": 0.6, "f1": 0.8, "support": 3}]})");
      folder_.write(run + "/nodes/evaluate/predictions.csv",
                    "name,label,predicted\nx,a,a\ny,b,a\n");
      folder_.write(
          run + "/metrics.jsonl",
          R"({"node": "train", "name": "train/epoch_loss", "value": 2.0, "step": 4, "time": 10.0})"
          "\n");
      folder_.write(run + "/nodes/train/checkpoints/step-00000004/manifest.json", "{}");
    }
    std::filesystem::remove_all(folder_ / "measured/nodes");
    folder_.write("net.py", "");
  }

  /// Runs `line`, followed by `more`, in a shell.
  Ended run(const GoodLine& line, const std::string& more) const {
    const TemporaryFolder beside;
    std::string worker = line.events.empty() ? "exit:1" : line.events + " finished:0";
    if (const std::size_t at = worker.find(" read"); at != worker.npos)
      worker.insert(at + 5, kLogged);
    return run_shell(
        install_with_worker(beside.path(), worker).string() + " " + line.arguments + more,
        folder_.path());
  }
  std::string read(const std::string& name) const { return folder_.read(name); }

 private:
  TemporaryFolder folder_;
};

class EveryVerb : public testing::TestWithParam<GoodLine> {
 protected:
  Ended run(const std::string& more) const { return runs_.run(GetParam(), more); }

  RecordedRuns runs_;
};

TEST(FileSizeLimit, IsReportedAndLeavesNoPartialFiles) {
  const TemporaryFolder folder, beside;
  const std::string program = install_with_worker(beside.path(), "exit:1").string();
  const Ended ended =
      run_shell("ulimit -f 1; " + program + " init || echo $? >code; cat recipe.yaml; " + program +
                    " config show quickstart --resolve >config || echo $? >>code",
                folder.path());
  EXPECT_EQ(file_text(folder / "code"), "74\n74\n");
  EXPECT_THAT(ended.err,
              testing::HasSubstr("cannot write 'recipe.yaml': File too large\n  help: it reached "
                                 "the file size limit: raise it with `ulimit -f`\n"));
  EXPECT_THAT(ended.err, testing::HasSubstr(
                             "error[E0802]: cannot write to standard output: File too large\n"));
  EXPECT_FALSE(std::filesystem::exists(folder / "recipe.yaml"));
}

TEST(EveryVerbTable, NamesEveryVerb) {
  std::set<std::string> tried, known;
  for (const GoodLine& line : good_lines()) tried.insert(line.verb);
  tried.insert("serve");  // ends only by a signal; see end_to_end/serve_test.cpp
  for (const Command* command : all_commands()) known.emplace(command->name);
  EXPECT_EQ(tried, known);
}

TEST_P(EveryVerb, Succeeds) {
  const Ended ended = run("");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_NE(ended.out, "");
}

TEST_P(EveryVerb, ExitsWith74IfItsResultsCannotBeWritten) {
  const Ended ended = run(" >/dev/full");
  EXPECT_EQ(ended.exit, 74) << ended.err;
  EXPECT_THAT(ended.err,
              testing::EndsWith(
                  "error[E0802]: cannot write to standard output: No space left on device\n"));
}

TEST_P(EveryVerb, ExitsWith74WithoutStandardOutput) {
  const Ended ended = run(" >&-");
  EXPECT_EQ(ended.exit, 74) << ended.err;
  EXPECT_THAT(
      ended.err,
      testing::EndsWith("error[E0802]: cannot write to standard output: Bad file descriptor\n"));
}

TEST_P(EveryVerb, IsTerminatedBySigpipeIfItsReaderIsGone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  constexpr int kPipe = 9;  // one digit, as some shells require
  dup2(ends[1], kPipe);
  const Ended ended = run(" >&9");
  close(ends[1]);
  close(kPipe);
  EXPECT_EQ(ended.exit, 128 + SIGPIPE) << ended.err;
  EXPECT_THAT(ended.err, testing::Not(testing::HasSubstr("error")));
}

class EveryWorker : public EveryVerb {};

TEST_P(EveryWorker, ShowsItsLogOnRequest) {
  const Ended ended = run(" --log-level debug");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const std::string shown = ended.err + runs_.read("r/log.txt") + runs_.read("e/log.txt") +
                            runs_.read("stopped/log.txt") + runs_.read("s/0/log.txt");
  EXPECT_THAT(shown, testing::HasSubstr("3 kernels"));
  EXPECT_THAT(run(" --log-level loud").err, testing::HasSubstr("--log-level"));
}

std::vector<GoodLine> lines_with_workers() {
  std::vector<GoodLine> lines = good_lines();
  std::erase_if(lines, [](const GoodLine& line) { return line.events.empty(); });
  return lines;
}

TEST_P(EveryVerb, PrintsOneDescribedDocumentAsJson) {
  const Ended ended = run(" --json");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(output_complaints(last_document(ended.out)), "") << ended.out;
}

TEST_P(EveryVerb, PrintsErrorsAsJson) {
  const auto is_refused = [&](const std::string& more, int exit) {
    const Ended ended = run(" --json " + more);
    EXPECT_EQ(ended.exit, exit) << ended.out;
    EXPECT_EQ(run(more).exit, exit) << "the same without --json";
    const auto document = last_document(ended.out);
    EXPECT_EQ(output_complaints(document), "") << ended.out;
    EXPECT_EQ(document["schema"], "errors/1");
    EXPECT_EQ(document["errors"][0]["severity"], "error");
    EXPECT_EQ(ended.err, "");
  };
  is_refused(" --no-such-flag", 64);
  if (GetParam().arguments.find(" quickstart") != std::string::npos) is_refused(" no.such=1", 78);
}

TEST(EveryVerbTable, PrintsEveryDescribedShape) {
  // Not printed here: an export to MLflow needs a server, and `serve` ends only by a signal.
  std::set<std::string> printed = {"envelope.json", "export_mlflow.json", "serve.json"}, described;
  for (const auto& entry : std::filesystem::directory_iterator(RETORT_SOURCE_DIR "/schemas/output"))
    described.insert(entry.path().filename());
  for (const GoodLine& line : good_lines()) {
    const RecordedRuns runs;
    const std::string shape = last_document(runs.run(line, " --json").out)["schema"];
    printed.insert(shape.substr(0, shape.find('/')) + ".json");
  }
  EXPECT_EQ(printed, described);
}

INSTANTIATE_TEST_SUITE_P(Table, EveryVerb, testing::ValuesIn(good_lines()), test_name);
INSTANTIATE_TEST_SUITE_P(Table, EveryWorker, testing::ValuesIn(lines_with_workers()), test_name);

}  // namespace
}  // namespace runner
