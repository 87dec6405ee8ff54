#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/report/comparison.h"
#include "runner/report/picture_folder.h"

namespace runner {

ExitCode compare_command(const Arguments& arguments, Console& console) {
  if (arguments.paths.size() < 2) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "a comparison takes two or more runs",
                             "name their folders: retort compare " + arguments.paths.front() + " outputs/…"}});
  }
  std::vector<RecordedRun> runs;
  Diagnostics errors, warnings;
  for (const std::string& path : arguments.paths) {
    auto run = read_run(path);
    if (run) runs.push_back(*std::move(run));
    else errors.insert(errors.end(), run.errors().begin(), run.errors().end());
  }
  if (!errors.empty()) return report(console, errors);
  Sources sources;
  const auto comparison = compare_runs(runs, sources, warnings);
  if (!comparison) return report(console, comparison.errors());
  warn(console, warnings);
  try {
    std::vector<std::string> pictures;
    if (!arguments.out.empty()) {
      PictureFolder folder(arguments.out);
      folder.write("model_comparison.svg", draw_comparison(*comparison));
      pictures = folder.written();
    }
    if (console.json) {
      nlohmann::ordered_json json = to_json(*comparison);
      json["pictures"] = pictures;
      console.out << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
    } else {
      console.out << comparison_text(*comparison);
      for (const std::string& path : pictures) console.out << path << '\n';
    }
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
  return ExitCode::kDone;
}

}  // namespace runner
