#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

/// A folder of its own for one test, gone when the test is.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "retort-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  /// Writes a file below the folder, making the folders on the way.
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// What a program did.
struct Ended {
  int exit = -1;  ///< 128 + signal when killed
  std::string out, err;
};

/// Runs a shell command in `folder` and waits for it.
inline Ended run_shell(const std::string& command, const std::filesystem::path& folder) {
  const TempFolder streams;
  const std::string line = "cd '" + folder.string() + "' && { " + command + "\n} >'" + (streams / "out").string() +
                           "' 2>'" + (streams / "err").string() + "' </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), file_text(streams / "out"),
          file_text(streams / "err")};
}

/// `retort` as built, with `arguments` as a shell would read them.
inline Ended retort(const std::string& arguments, const std::filesystem::path& folder) {
  return run_shell(RETORT_BINARY_DIR "/bin/retort " + arguments, folder);
}
