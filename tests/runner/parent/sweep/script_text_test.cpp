#include "runner/parent/sweep/slurm_launcher.h"

#include <cstdlib>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/sweep/kubernetes_launcher.h"
#include "runner/shared/text/utf8.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

/// Strings with all characters that a shell, sbatch, YAML or Kubernetes may interpret.
std::vector<std::string> tricky_texts() {
  std::vector<std::string> texts = {
      "",          "plain",        "it's",   "a b",          "\"",      "\\",   "\\\"",
      "$(id)",     "$HOME",        "`id`",   "$$(id)",       "#SBATCH", " # a", "a: b",
      "{a: 1, b}", "\u2028\u0085", "\ufeff", "#SBATCH -w a", "'\\''",   "-n",   "!!str"};
  constexpr std::string_view kLetters = "ab'\"\\$`#(){}[];&|<>*?~!%:, ,@=-/\t";
  std::mt19937 random(1);
  for (int count = 0; count < 300; ++count) {
    std::string text;
    for (std::uint32_t size = random() % 12; size > 0; --size)
      text += kLetters[random() % kLetters.size()];
    texts.push_back(text);
  }
  return texts;
}

/// The first argument that sbatch reads from `line`, following get_argument() in Slurm's
/// src/sbatch/opt.c.
std::string read_by_sbatch(std::string_view line) {
  std::string argument;
  char quote = '\0';
  for (std::size_t i = 0; i < line.size() && line[i] != '\n' && (quote || !is_blank(line[i]));
       ++i) {
    if (line[i] == '\\') {
      if (++i < line.size()) argument += line[i];
    } else if (quote && line[i] == quote) {
      quote = '\0';
    } else if (!quote && (line[i] == '"' || line[i] == '\'')) {
      quote = line[i];
    } else if (!quote && line[i] == '#') {
      break;
    } else {
      argument += line[i];
    }
  }
  return quote ? "unmatched" : argument;
}

/// The string to which Kubernetes expands a word of `command` if no variables are set.
std::string expanded_by_kubernetes(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == '(') result += "<expanded>";
    else if (text[i] == '$' && i + 1 < text.size())
      result += text[++i] == '$' ? "$" : std::string("$") + text[i];
    else result += text[i];
  }
  return result;
}

std::string read_from_yaml(const std::string& yaml, const std::string& key) {
  Sources sources;
  const auto read = read_yaml(sources.add("job.yaml", yaml));
  if (!read) return "unreadable: " + read.errors().front().message;
  const Value* const value = at_key(*read, key);
  return value && value->text() ? *value->text() : "no text";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

nlohmann::ordered_json slurm_settings(const std::string& text) {
  return {{"partition", text},
          {"account", text},
          {"time_minutes", 60},
          {"at_once", nullptr},
          {"warning_seconds", 120},
          {"options", nlohmann::ordered_json::array()},
          {"setup", nlohmann::ordered_json::array()}};
}

TEST(ShellWord, IsReadBackByAShell) {
  const TemporaryFolder folder;
  std::string script;
  std::string expected;
  for (const std::string& text : tricky_texts()) {
    script += "printf '%s\\0' " + shell_word(text) + "\n";
    expected += text + '\0';
  }
  folder.write("script", script);
  for (const std::string shell : {"bash", "sh"}) {
    ASSERT_EQ(
        std::system(("cd '" + folder.path().string() + "' && " + shell + " script >said").c_str()),
        0);
    EXPECT_EQ(folder.read("said"), expected) << shell;
  }
}

TEST(SbatchWord, IsReadBackBySbatch) {
  for (const std::string& text : tricky_texts())
    EXPECT_EQ(read_by_sbatch(sbatch_word(text) + " more"), text);
}

TEST(YamlWord, IsReadBackFromAYamlFlow) {
  for (const std::string& text : tricky_texts())
    EXPECT_EQ(read_from_yaml("a: [{b: " + yaml_word(text) + ", c: 1}]\n", "a.0.b"), text);
}

TEST(SlurmScript, StringsCannotAddLines) {
  const std::string plain =
      slurm_script(slurm_settings("a"), {}, {.number = 1, .name = "a", .trials = {0}}, "/a", "/b");
  for (const std::string& text : tricky_texts()) {
    const auto lines =
        lines_of(slurm_script(slurm_settings(text), {}, {.number = 1, .name = text, .trials = {0}},
                              "/" + text, "/b" + text));
    ASSERT_EQ(lines.size(), lines_of(plain).size()) << text;
    const auto value_of = [&](const std::string& option) {
      for (const std::string& line : lines)
        if (line.starts_with("#SBATCH --" + option + "="))
          return read_by_sbatch(line.substr(line.find('=') + 1));
      return std::string("not there");
    };
    EXPECT_EQ(value_of("job-name"), text);
    EXPECT_EQ(value_of("partition"), text);
    EXPECT_EQ(value_of("account"), text);
    EXPECT_EQ(lines.back(), "exec " + shell_word("/b" + text) + " sweep task " +
                                shell_word("/" + text) + " \"$SLURM_ARRAY_TASK_ID\"");
  }
}

TEST(KubernetesManifest, StringsCannotAddKeys) {
  for (const std::string& text : tricky_texts()) {
    const nlohmann::ordered_json settings = {
        {"image", text}, {"program", text}, {"claim", text},       {"namespace", text},
        {"at_once", 2},  {"restarts", 6},   {"save_seconds", 120}, {"mount", nullptr}};
    const std::string manifest = kubernetes_manifest(
        settings, {}, {.number = 1, .name = text, .trials = {0}}, "/" + text, "/m" + text);
    const auto read = [&](const std::string& key) { return read_from_yaml(manifest, key); };
    EXPECT_EQ(read("metadata.name"), text);
    EXPECT_EQ(read("metadata.namespace"), text);
    EXPECT_EQ(read("spec.template.spec.containers.0.image"), text);
    EXPECT_EQ(read("spec.template.spec.containers.0.volumeMounts.0.mountPath"), "/m" + text);
    EXPECT_EQ(read("spec.template.spec.volumes.0.persistentVolumeClaim.claimName"), text);
    EXPECT_EQ(expanded_by_kubernetes(read("spec.template.spec.containers.0.command.2")),
              "exec " + shell_word(text) + " sweep task " + shell_word("/" + text) +
                  " \"$JOB_COMPLETION_INDEX\"");
  }
}

TEST(UnfitForScript, ReportsCharactersThatTheLanguageCannotContain) {
  const auto why = [](const std::string& path, ScriptKind kind) {
    const auto unfit = unfit_for_script(path, "the sweep's folder", kind);
    return unfit ? unfit->message : "";
  };
  for (int byte = 1; byte < 0x20; ++byte) {
    const std::string path = "/a" + std::string(1, static_cast<char>(byte)) + "#SBATCH -w b";
    EXPECT_NE(why(path, ScriptKind::kSlurm), "") << byte;
    EXPECT_NE(why(path, ScriptKind::kKubernetes), "") << byte;
  }
  EXPECT_EQ(why("/a\nb", ScriptKind::kSlurm),
            "the path of the sweep's folder, '/a b', has a control character, such as a newline, "
            "which a script for the cluster cannot contain");
  EXPECT_NE(why("/a\\b", ScriptKind::kSlurm), "");
  EXPECT_EQ(why("/a\\b", ScriptKind::kKubernetes), "");
  EXPECT_NE(why("/a\xff", ScriptKind::kKubernetes), "");
  EXPECT_EQ(why("/it's a \"$(b)\"/50%", ScriptKind::kSlurm), "");
}

}  // namespace
}  // namespace runner
