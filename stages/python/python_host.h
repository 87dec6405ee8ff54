#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

// The Python process that hosts this worker. It loads the worker's library and handles the worker's
// requests. Requests and replies are JSON. Tensors are passed by name through the operators
// retort::give and retort::take, which stages/python/retort_host calls.

namespace stages {

/// Handles a request. Returns 0 on success. Python replies by calling reply_to_python_call().
using PythonCall = int (*)(const char* request);

/// Sets the function that handles call_python() from now on. The function is borrowed; null means
/// that this worker has no Python.
void set_python(PythonCall call);
bool has_python();
void reply_to_python_call(const char* reply);

/// Sends a request to Python and returns the reply. On failure, drops the tensors and throws
/// runner::StageError with the last line of Python's traceback; the whole traceback goes to
/// standard error, and so to the log. The code is kUntrustedCode if Python encountered a file that
/// the user has not trusted, and kStageFailed otherwise. Throws c10::OutOfMemoryError if memory
/// runs out.
nlohmann::ordered_json call_python(const nlohmann::ordered_json& request);

/// Declares that Python's output now goes to the log.txt of a run. Before that, only -v shows it.
void set_log_of_run();
/// Returns "Python's traceback is in log.txt", or how to see it if there is no log.
std::string where_the_traceback_is();

/// Sets the function that is called while waiting for Python, to check whether the worker must
/// stop. Any thread may call it. Without a function, is_to_stop() returns false.
void set_stop(std::function<bool()> is_to_stop);
bool is_to_stop();

/// Passes tensors to and from Python. Each can be taken only once, and only until
/// clear_python_tensors() is called.
void give_to_python(const std::string& name, at::Tensor tensor);
/// Throws runner::StageError if Python has not returned a tensor with that name.
at::Tensor taken_from_python(const std::string& name);
void clear_python_tensors();

}  // namespace stages
