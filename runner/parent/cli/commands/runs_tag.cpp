#include <span>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/runs.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/parent/registry/run_tags.h"

namespace runner {

ExitCode tag_run(const RunsFlags& flags, Console& console) {
  const auto run = read_run(flags.run());
  if (!run) return report(console, run.errors());
  const std::vector<std::string> tags(flags.words.begin() + 1, flags.words.end()), none;
  if (flags.removes && tags.empty()) {
    return report(console,
                  {{ErrorCode::kUsage, {}, "", "--remove needs the tags that are to go", "name them after the run"}});
  }
  try {
    const auto after = tags.empty()
                           ? read_tags(run->folder)
                           : change_tags(run->folder, flags.removes ? none : tags, flags.removes ? tags : none);
    if (!after) return report(console, after.errors());
    if (console.json) {
      print_result(console, "runs_tag/1", {{"run", flags.run()}, {"tags", *after}});
      return ExitCode::kDone;
    }
    for (const std::string& tag : *after) console.out << tag << '\n';
    if (after->empty() && !console.is_quiet()) console.err << "'" << flags.run() << "' has no tags\n";
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
  return ExitCode::kDone;
}

}  // namespace runner
