#include "runner/parent/registry/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>

#include "runner/shared/disk/descriptor.h"

namespace runner {
namespace {

constexpr off_t kLargestDatabase = off_t{1} << 31;  // 2 GiB, a hundred times what 10,000 runs need

struct FreeBytes {
  void operator()(unsigned char* bytes) const { sqlite3_free(bytes); }
};
using DatabaseBytes = std::unique_ptr<unsigned char, FreeBytes>;

/// Returns the URI of `file`. It declares the file immutable, so SQLite uses no locks or journal.
std::string uri_of(const std::filesystem::path& file) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : file.string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '/' || c == '.' || c == '-' || c == '_') uri += c;
    else uri += {'%', kDigits[byte / 16], kDigits[byte % 16]};
  }
  return uri + "?immutable=1";
}

/// Reads `size` bytes of an open file into memory that SQLite can own; null if they cannot be read.
DatabaseBytes bytes_of(const Descriptor& file, std::size_t size) {
  DatabaseBytes bytes(static_cast<unsigned char*>(sqlite3_malloc64(size)));
  for (std::size_t done = 0; bytes && done < size;) {
    const ssize_t got = ::read(*file, bytes.get() + done, size - done);
    if (got > 0) done += static_cast<std::size_t>(got);
    else if (got == 0 || errno != EINTR) return nullptr;
  }
  return bytes;
}

}  // namespace

void Statement::Close::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void Database::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

Statement::Statement(sqlite3* database, const std::string& sql) : database_(database) {
  sqlite3_stmt* statement = nullptr;
  check(
      sqlite3_prepare_v2(database, sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr));
  statement_.reset(statement);
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) throw DatabaseError(sqlite3_errmsg(database_));
}

Statement& Statement::bind(int parameter, std::int64_t value) {
  check(sqlite3_bind_int64(statement_.get(), parameter + 1, value));
  return *this;
}

Statement& Statement::bind(int parameter, double value) {
  check(sqlite3_bind_double(statement_.get(), parameter + 1, value));
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view text) {
  const char* const begin = text.data() ? text.data() : "";  // a null pointer would be bound as
                                                             // NULL
  check(sqlite3_bind_text64(statement_.get(), parameter + 1, begin, text.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  const std::string message = code == SQLITE_DONE ? "" : sqlite3_errmsg(database_);
  sqlite3_reset(statement_.get());
  if (code != SQLITE_DONE) throw DatabaseError(message);
  return false;
}

void Statement::run() {
  while (step()) continue;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
double Statement::number(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}
bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}
bool Statement::is_text(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_TEXT;
}

std::string Statement::text(int column) const {
  const auto* begin = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return begin ? std::string(begin, static_cast<std::size_t>(size)) : std::string();
}

Database::Database() : Database(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) {}

Database::Database(const std::string& name, int flags) {
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &database, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  database_.reset(database);
  if (code != SQLITE_OK) throw DatabaseError(database ? sqlite3_errmsg(database) : "out of memory");
}

std::optional<Database> Database::open(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return Database(uri_of(file), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

std::optional<Database> Database::read(const std::filesystem::path& file) {
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!opened.is_open() || ::fstat(*opened, &status) != 0 || !S_ISREG(status.st_mode))
    return std::nullopt;
  if (status.st_size > kLargestDatabase) return std::nullopt;
  const auto size = static_cast<std::size_t>(status.st_size);
  DatabaseBytes bytes = bytes_of(opened, std::max<std::size_t>(size, 1));
  if (!bytes && size > 0) return std::nullopt;
  Database database;
  const int code = sqlite3_deserialize(
      database.database_.get(), "main", bytes.release(), status.st_size, status.st_size,
      SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
  if (code != SQLITE_OK) throw DatabaseError(sqlite3_errmsg(database.database_.get()));
  return database;
}

void Database::run(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    throw DatabaseError(sqlite3_errmsg(database_.get()));
}

std::string_view Database::bytes() {
  sqlite3_int64 size = 0;
  unsigned char* bytes = sqlite3_serialize(database_.get(), "main", &size, SQLITE_SERIALIZE_NOCOPY);
  if (bytes) return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)};
  // A database that was created in memory is stored in pages and must be copied.
  const DatabaseBytes copy(sqlite3_serialize(database_.get(), "main", &size, 0));
  if (!copy && size > 0) throw DatabaseError("out of memory");
  copy_.assign(reinterpret_cast<const char*>(copy.get()), static_cast<std::size_t>(size));
  return copy_;
}

}  // namespace runner
