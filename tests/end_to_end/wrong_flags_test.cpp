// End-to-end tests of invalid values for every flag and argument that accepts text: no command ends
// with an internal error or a signal, none hangs, and the message names the flag or the value.

#include <sys/stat.h>

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::HasSubstr;
using testing::Not;

/// Names of missing, unsuitable or unreadable files, and text that is not a name.
const std::vector<std::string> kAll = {"",
                                       " ",
                                       "nope",
                                       "nope/x",
                                       "folder",
                                       "text.txt",
                                       "text.txt/x",
                                       "/proc/self/mem",
                                       "/dev/null",
                                       "pipe",
                                       "[",
                                       "a\nb",
                                       "-1",
                                       "a\x1b[31mb",
                                       "\x7f",
                                       "caf\xe8",
                                       "${missing}",
                                       "~nobody/x",
                                       "*",
                                       "hf:",
                                       "=x",
                                       "1e999'",
                                       "99999999999999999999",
                                       std::string(300, 'a'),
                                       std::string(5000, 'a')};

/// For commands that start a worker, which takes a second.
const std::vector<std::string> kFew = {
    "", "nope", "folder", "text.txt/x", "a\x1b[31mb", "pipe", std::string(5000, 'a')};

/// For outputs that a worker writes: places where no file can be.
const std::vector<std::string> kUnwritable = {"", "text.txt/x", "pipe", std::string(5000, 'a')};

/// For commands that start a worker with any value.
const std::vector<std::string> kOnce = {"", "folder", "a\x1b[31mb"};

/// For commands that first read a run.
const std::vector<std::string> kSome = {
    "",     " ",  "nope",       "folder",  "text.txt/x",         "/proc/self/mem",
    "pipe", "-1", "a\x1b[31mb", "caf\xe8", std::string(300, 'a')};

/// Quotes a word for a shell.
std::string in_shell(const std::string& word) {
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

class WrongFlags : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    ASSERT_EQ(retort("data make image_folder --out photos --classes 3 --per-class 6 --size 16 -q",
                     folder_.path())
                  .exit,
              0);
    folder_.write(
        "r.yaml",
        "schema: 1\nthreads: 1\n"
        "data: {kind: data.image_folder, root: photos, image_size: 32}\n"
        "model: {kind: model.clip_vision, patch_size: 16, hidden_size: 16, num_hidden_layers: 1, "
        "num_attention_heads: 2, intermediate_size: 16}\n"
        "memory: {kind: memory.policy}\n"
        "train: {kind: train.supervised, batch_size: 8, epochs: 1}\n"
        "evaluate: {kind: evaluate.classification}\n");
    std::filesystem::create_directory(folder_ / "folder");
    folder_.write("text.txt", "a text\n");
    ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    folder_.keep();
  }

  void make_run() { ASSERT_EQ(retort("run r.yaml run.dir=done -q", folder_.path()).exit, 0); }

  /// Runs `command` with each of the values instead of {}, all in one shell, and returns the
  /// results.
  std::vector<Ended> ended_with(const std::string& command,
                                const std::vector<std::string>& values) {
    const std::size_t place = command.find("{}");
    const std::size_t start = command.rfind(' ', place) + 1;
    const std::size_t end = std::min(command.find(' ', place), command.size());
    const TemporaryFolder said;
    std::string lines;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::string word = command.substr(start, end - start), line = command;
      line.replace(start, end - start, in_shell(word.replace(word.find("{}"), 2, values[i])));
      const std::string to = said / std::to_string(i);
      lines += "timeout 60 " RETORT_BINARY_DIR "/bin/retort " + line + " >/dev/null 2>'" + to +
               "'; echo $? >'" + to + ".exit'\n";
    }
    run_shell(lines, folder_.path());
    std::vector<Ended> all;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string to = said / std::to_string(i);
      all.push_back({std::stoi(file_text(to + ".exit")), "", file_text(to)});
    }
    return all;
  }

  /// Checks `command` with each of the values instead of {}.
  void expect_refused_well(const std::string& command, const std::vector<std::string>& values) {
    const std::size_t place = command.find("{}");
    const std::size_t flag = command.rfind("--", place);
    const std::string before =
        flag == command.npos ? "" : command.substr(flag, command.find(' ', flag) - flag);
    const std::vector<Ended> all = ended_with(command, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string& value = values[i];
      const std::string line = command + " with " + in_shell(value);
      const Ended& ended = all[i];
      const std::string said = ended.err.substr(0, 1000);
      EXPECT_NE(ended.exit, 70) << line << '\n' << said;
      EXPECT_NE(ended.exit, 124) << line << '\n' << said;
      EXPECT_LT(ended.exit, 126) << line << '\n' << said;
      EXPECT_THAT(ended.err, Not(HasSubstr("please report"))) << line;
      EXPECT_TRUE(std::ranges::none_of(
          ended.err, [](unsigned char c) { return (c < ' ' && c != '\n') || c == 0x7f; }))
          << line << '\n'
          << said;
      if (ended.exit == 0 || value.size() > 1000) continue;
      EXPECT_TRUE(ended.err.find(plain(value)) != std::string::npos ||
                  (!before.empty() && ended.err.find(before.substr(2)) != std::string::npos) ||
                  (value.empty() && ended.err.find("empty") != std::string::npos) ||
                  ended.err.find("no recipe given") != std::string::npos)  // an empty override
          << line << '\n'
          << said;
    }
  }

  /// The start of a value, as far as it is printed unchanged.
  static std::string plain(const std::string& value) {
    constexpr std::size_t kShown = 4;
    const auto end =
        std::ranges::find_if(value, [](unsigned char c) { return c < ' ' || c >= 0x7f; });
    return std::string(value.begin(), end).substr(0, kShown);
  }

  SharedFolder folder_;
};

TEST_F(WrongFlags, AreReportedByVerbsThatReadRecipes) {
  for (const char* command : {"validate {}",
                              "validate r.yaml --config-dir {}",
                              "validate r.yaml --config-path {}",
                              "validate --config-name {}",
                              "validate r.yaml {}",
                              "validate r.yaml {}=1",
                              "validate r.yaml name={}",
                              "validate r.yaml notice={}",
                              "validate r.yaml device={}",
                              "validate r.yaml run.dir={}",
                              "validate r.yaml sweep.dir={}",
                              "validate r.yaml determinism={}",
                              "graph r.yaml --format {}",
                              "config {} r.yaml",
                              "config show {}",
                              "config show r.yaml --explain {}",
                              "config show r.yaml -p {}",
                              "config show r.yaml --info {}",
                              "config diff r.yaml {}",
                              "config diff {} r.yaml",
                              "schema {}",
                              "schema --editor {}",
                              "explain {}",
                              "completion {}",
                              "stages {}",
                              "{}",
                              "run {}",
                              "run r.yaml --only {}",
                              "run r.yaml --log-level {}",
                              "run r.yaml --grace {}",
                              "run r.yaml -c {}",
                              "run r.yaml -i {}"})
    expect_refused_well(command, kAll);
}

TEST_F(WrongFlags, AreReportedBySweeps) {
  for (const char* command :
       {"sweep {} --dry-run", "sweep r.yaml seed=1,2 --launcher {} --dry-run",
        "sweep r.yaml seed=1,2 --slots {} --dry-run",
        "sweep r.yaml seed=1,2 --timeout {} --dry-run",
        "sweep r.yaml seed=1,2 sweep.dir={} --dry-run", "sweep r.yaml seed={} --dry-run",
        "sweep resume {}", "sweep show {}", "watch {} --once"})
    expect_refused_well(command, kAll);
  expect_refused_well("sweep r.yaml seed=1,2 --metric {} --dry-run", kFew);
}

TEST_F(WrongFlags, AreReportedByDataAndDeviceVerbs) {
  for (const char* command :
       {"data {} x", "data fetch {}", "data check {}", "data make {} --out made",
        "devices --need {}", "doctor {}", "data make image_folder --out made --classes {}",
        "data make image_folder --out made --classes 2 --per-class 1 --size 16 --seed {}",
        "init {}"})
    expect_refused_well(command, kAll);
  expect_refused_well("data fetch flowers102 --from-file {} --out fetched", kUnwritable);
  expect_refused_well("data make image_folder --classes 2 --per-class 1 --size 16 --out {}",
                      kUnwritable);
}

TEST_F(WrongFlags, AreReportedByVerbsThatReadRuns) {
  make_run();
  for (const char* command : {"runs {} done",
                              "runs ls {}",
                              "runs show {}",
                              "runs diff {} done",
                              "runs diff done {}",
                              "runs rm {}",
                              "runs tag done {}",
                              "runs tag {} x",
                              "runs reset {}",
                              "runs reset done --node {}",
                              "runs ls . --sort {}",
                              "runs best . --metric {}",
                              "runs reproduce {}",
                              "runs rerun {}",
                              "runs reproduce done --tolerance {}",
                              "runs reindex {}",
                              "analyze {}",
                              "compare {} done",
                              "compare done done --sort {}",
                              "compare done done --seed {}",
                              "resume {}",
                              "resume done {}",
                              "resume done --grace {}",
                              "evaluate {}",
                              "evaluate done --checkpoint {}",
                              "evaluate done --weights {}",
                              "predict {} photos",
                              "predict done --node {} photos",
                              "predict done photos --checkpoint {}",
                              "predict done photos --top {}",
                              "predict done photos --flip {}",
                              "export {}",
                              "export done --node {}",
                              "export done --checkpoint {}",
                              "export done --names {}"})
    expect_refused_well(command, kSome);
}

TEST_F(WrongFlags, AreReportedByVerbsThatStartAWorker) {
  make_run();
  for (const char* command :
       {"plan r.yaml --budget {}", "plan r.yaml --gpu {}", "plan r.yaml --only {}",
        "certify r.yaml --only {}", "doctor determinism {}", "predict done {}",
        "predict --model {} photos --labels a"})
    expect_refused_well(command, kFew);
  for (const char* command :
       {"plan r.yaml --svg {}", "predict done photos --out {}", "export done --out {}",
        "analyze done --out {}", "compare done done --out {}", "evaluate done run.dir={}",
        "runs rerun done run.dir={}"})
    expect_refused_well(command, kUnwritable);
  for (const char* command :
       {"predict done photos --support {}", "predict done photos --explain {}",
        "predict done photos --labels {}"})
    expect_refused_well(command, kOnce);
}

}  // namespace
