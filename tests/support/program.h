#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/temporary_folder.h"

inline std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// The result of a program.
struct Ended {
  int exit = -1;  ///< 128 + signal when killed
  std::string out, err;
};

/// Runs a shell command in `folder` and waits for it. Its cache and its list of trusted code are
/// removed afterward, unless the command sets RETORT_CACHE or XDG_CONFIG_HOME itself.
inline Ended run_shell(const std::string& command, const std::filesystem::path& folder) {
  const TemporaryFolder streams;
  const std::string line =
      "export RETORT_CACHE='" + streams.path().string() + "/cache' XDG_CONFIG_HOME='" +
      streams.path().string() + "/config'; cd '" + folder.string() + "' && { " + command +
      "\n} >'" + (streams / "out").string() + "' 2>'" + (streams / "err").string() + "' </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          file_text(streams / "out"), file_text(streams / "err")};
}

/// `retort` as built, with `arguments` in shell syntax.
inline Ended retort(const std::string& arguments, const std::filesystem::path& folder) {
  return run_shell(RETORT_BINARY_DIR "/bin/retort " + arguments, folder);
}
