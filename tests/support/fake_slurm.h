#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"

/// Commands with Slurm's names, first on PATH during the lifetime of this object. sbatch runs the
/// tasks of its script one after the other before it answers; squeue shows how they ended. A line
/// of shell in the file <command>.does replaces a command; `calls` lists all calls, one per line.
class FakeSlurm {
 public:
  FakeSlurm() : path_(std::getenv("PATH")) {
    const std::string head =
        "#!/bin/bash\ncd '" + folder_.path().string() +
        "'\necho \"$(basename \"$0\") $*\" >>calls\n"
        "if [ -e $(basename \"$0\").does ]; then . ./$(basename \"$0\").does; fi\n";
    add("sbatch", head + R"(script=${!#}
job=$(($(ls -d job.* 2>/dev/null | wc -l) + 7))
mkdir job.$job
name=$(sed -n 's/^#SBATCH --job-name=//p' "$script")
last=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\).*/\1/p' "$script")
for ((task = 0; task <= last; ++task)); do
  export SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$task
  if bash "$script" >>job.$job/log 2>&1; then state=COMPLETED; else state=FAILED; fi
  echo "$name|$task|$state" >>job.$job/queue
done
echo $job
)");
    add("squeue", head + "cat job.*/queue 2>/dev/null || true\n");
    for (const char* command : {"sacct", "scancel", "scontrol"}) add(command, head);
    setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
  }
  ~FakeSlurm() { setenv("PATH", path_.c_str(), 1); }

  void does(const std::string& command, const std::string& line) const {
    folder_.write(command + ".does", line);
  }
  std::string calls() const { return folder_.read("calls"); }
  std::string log(int job) const { return folder_.read("job." + std::to_string(job) + "/log"); }

 private:
  void add(const std::string& command, const std::string& text) const {
    folder_.write(command, text);
    std::filesystem::permissions(folder_ / command, std::filesystem::perms::owner_all);
  }

  TemporaryFolder folder_;
  const std::string path_;
};
