// End-to-end tests of files, classes and folders with terminal escape sequences in their names: no
// sequence reaches a terminal or a report.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// Sets the window title, reverses the text direction, sets a color, and starts an escape sequence
/// with its one-byte form.
const std::string kHostile = "\x1b]0;PWN\x07\u202egpj\x1b[31m\u2066\u009b";

void expect_no_orders(const std::string& text, const std::string& what) {
  for (const char* order : {"\x1b]", "\x1b[31m", "\x07", "\u202e", "\u2066", "\u009b"})
    EXPECT_THAT(text, Not(HasSubstr(order))) << what;
}

TEST(HostileNames, EscapeSequencesReachNeitherTerminalNorReport) {
  const TemporaryFolder folder;
  const auto shell = [&](const std::string& commands) {
    return run_shell("export TERM=xterm H=\"$(printf '" +
                         std::string("\\033]0;PWN\\007\\342\\200\\256gpj\\033[31m"
                                     "\\342\\201\\246\\302\\233") +
                         "')\"\nretort() { " RETORT_BINARY_DIR "/bin/retort \"$@\"; }\n" + commands,
                     folder.path());
  };
  ASSERT_EQ(
      shell("retort data make image_folder --out photos --classes 3 --per-class 8 --size 24 -q")
          .exit,
      0);
  // File names are hostile, and so are class names from a table.
  std::string table = "image,label\n";
  std::vector<fs::path> pictures;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "photos"))
    if (entry.path().extension() == ".jpg") pictures.push_back(entry.path());
  for (const fs::path& picture : pictures) {
    const fs::path renamed = picture.parent_path() / (picture.stem().string() + kHostile + ".jpg");
    fs::rename(picture, renamed);
    const std::string label = picture.parent_path().filename();
    table += label + "/" + renamed.filename().string() + "," + label + kHostile + "\n";
  }
  folder.write("t.csv", table);
  const fs::path one =
      folder / "photos" / pictures[0].parent_path().filename() / ("b" + kHostile + ".jpg");
  folder.write(one.lexically_relative(folder.path()), "broken");
  const std::string options = " data.root=photos data.image_size=24 batch_size=4 epochs=1 ";
  folder.write("tabled.yaml",
               "schema: 1\n"
               "defaults: [{model: tiny}, {memory: as_written}, {train: from_scratch}, _self_]\n"
               "threads: 1\n"
               "data: {kind: data.image_table, root: photos, table: t.csv, image: image, label: "
               "label, image_size: 24, split: {train: 0.5, validation: 0.25, test: 0.25}}\n"
               "model: {patch_size: 8}\n"
               "train: {epochs: 1, batch_size: 4}\n"
               "evaluate: {kind: evaluate.classification}\n");
  int named = 0;
  for (const std::string& verb : std::vector<std::string>{
           "data check classify" + options,
           "data check classify data.on_corrupt=skip" + options,
           "run classify run.dir=broken" + options,
           "run classify data.on_corrupt=skip -v run.dir=run" + options,
           "run classify data.on_corrupt=skip -q seed=2 run.dir=other" + options,
           "predict run photos",
           "predict run photos --json",
           "predict run 'photos/'*/",
           "predict run \"no$H\"",
           "analyze run",
           "compare run other --paired",
           "compare run other --all",
           "runs diff run other",
           "export run --out \"e$H\"",
           "data check tabled.yaml",
           "run tabled.yaml",
           "runs rerun run run.dir=\"r$H\" -q",
           "runs ls .",
           "runs show \"r$H\"",
           "analyze \"r$H\"",
           "report \"r$H\" --out report.html",
           "report \"r$H\" --format md",
           "resume \"r$H\"",
           "compare \"r$H\" run",
           "runs best . --metric evaluate/top1",
           "validate \"no$H\"",
           "explain \"no$H\"",
           "data fetch \"no$H\"",
           "watch \"no$H\""}) {
    const Ended ended = shell("retort " + verb);
    EXPECT_NE(ended.exit, 70) << verb << ended.err;
    const bool has_hostile_classes = verb.ends_with("tabled.yaml");
    if (has_hostile_classes)
      EXPECT_THAT(ended.out + ended.err, HasSubstr("its 'label' contains unprintable characters"))
          << verb;
    expect_no_orders(ended.out + ended.err, verb);
    named += (ended.out + ended.err).find("PWN") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(named, 12) << "names are shown without their escape sequences";
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    const std::string name = entry.path().filename();
    if (name == "report.txt" || name == "log.txt" || name == "README.md" ||
        name.ends_with(".svg") || name.ends_with(".html"))
      expect_no_orders(file_text(entry.path()), entry.path());
  }
  if (shell("command -v script").exit != 0)
    GTEST_SKIP() << "script(1), which creates terminals, is not installed";
  for (const std::string& verb :
       {std::string("predict run photos"), "data check classify" + options}) {
    const Ended shown =
        shell("script -qec '" RETORT_BINARY_DIR "/bin/retort " + verb + "' /dev/null");
    EXPECT_THAT(shown.out, HasSubstr("PWN")) << verb;
    expect_no_orders(shown.out, verb);
  }
}

}  // namespace
