#include "runner/parent/python/interpreter.h"

#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "runner/parent/compile/recipe.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNameOne =
    "activate the virtual environment that has torch, or choose its interpreter: "
    "python=venv/bin/python";

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// Returns the program `name` in the folders of PATH, or an empty path if there is none. Skips
/// relative folders, because they depend on where retort was started.
fs::path on_path(const std::string& path, const std::string& name) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path folder = path.substr(begin, end - begin);
    if (folder.is_absolute() && is_program(folder / name)) return folder / name;
    begin = end + 1;
  }
  return {};
}

Diagnostic no_python(const Value* request, const std::string& message, const std::string& help) {
  Diagnostic error{ErrorCode::kNoPython, {}, "", message, help};
  if (!request) return error;
  error.pointer = "/python";
  error.where = request->where;
  return error;
}

}  // namespace

Variable process_variables() {
  return [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Result<fs::path> find_interpreter(const Value& recipe, const fs::path& folder,
                                  const Variable& variable) {
  const Value* const request = recipe.find("python");
  const std::string wanted = request && request->text() ? *request->text() : "auto";
  if (wanted != "auto") {
    const fs::path path = fs::absolute(folder / with_home(wanted)).lexically_normal();
    if (is_program(path)) return path;
    std::error_code error;
    const bool exists = fs::exists(path, error);
    return no_python(request,
                     "'" + wanted + "' is not a Python interpreter: " +
                         (exists ? "it is not an executable file" : "there is no such file"),
                     "python is a path, such as venv/bin/python or /usr/bin/python3, or auto");
  }
  if (const auto environment = variable("VIRTUAL_ENV"); environment && !environment->empty()) {
    const fs::path path = fs::path(*environment) / "bin" / "python";
    if (is_program(path)) return path;
    return no_python(
        request,
        "the virtual environment '" + *environment + "' has no interpreter: '" + path.string() +
            "' is not an executable file",
        "create it again, leave it with `deactivate`, or choose an interpreter with python=…");
  }
  for (const char* name : {"python3", "python"}) {
    if (fs::path path = on_path(variable("PATH").value_or(""), name); !path.empty()) return path;
  }
  return no_python(request, "the recipe has Python code, but there is no python3 or python on PATH",
                   kNameOne);
}

}  // namespace runner
