#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace runner {

/// An SQLite error, with SQLite's message.
struct DatabaseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A prepared statement of a Database, which must outlive it. Parameters and columns are numbered
/// from 0.
class Statement {
 public:
  Statement(sqlite3* database, const std::string& sql);  ///< see Database::prepare()

  Statement& bind(int parameter, std::int64_t value);
  Statement& bind(int parameter, double value);  ///< NaN becomes NULL
  Statement& bind(int parameter, std::string_view text);
  /// Advances to the next row; false if there is none. The statement may then be bound and run
  /// again.
  bool step();
  /// Runs the statement to completion.
  void run();

  std::int64_t integer(int column) const;
  double number(int column) const;
  std::string text(int column) const;
  bool is_null(int column) const;
  bool is_text(int column) const;

 private:
  struct Close {
    void operator()(sqlite3_stmt* statement) const;
  };
  void check(int code) const;

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Close> statement_;
};

/// An SQLite database that is changed only in memory and stored as the bytes of a file. A file is
/// always written in full and never modified, so no locks or journal are needed on any file system.
/// All functions throw DatabaseError.
class Database {
 public:
  /// An empty database.
  Database();
  /// Opens the database in `file` read-only; reads only what is queried. Returns nullopt if there
  /// is no such file. Damage is detected only when a query reads the damaged part.
  static std::optional<Database> open(const std::filesystem::path& file);
  /// Reads the database in `file` into memory; nullopt if it cannot be read.
  static std::optional<Database> read(const std::filesystem::path& file);

  Statement prepare(const std::string& sql) { return Statement(database_.get(), sql); }
  void run(const std::string& sql);
  /// Returns the bytes to write to a file; valid until the next use of the database.
  std::string_view bytes();

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  explicit Database(const std::string& name, int flags);

  std::unique_ptr<sqlite3, Close> database_;
  std::string copy_;  // the text that bytes() returns
};

}  // namespace runner
