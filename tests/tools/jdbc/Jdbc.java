import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/**
 * Statements through a JDBC driver, one a line of standard input, as tools written in Java ask them.
 *
 * Argument: the URL; user and password stand in the environment. A line is a command and its arguments, separated by
 * tabs: tables SCHEMA, columns SCHEMA TABLE, query SQL VALUE..., stream SQL. Backslash escapes as in TSV. Each answer
 * is "ok N" and N lines, or "error" and one line.
 */
public final class Jdbc {
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Connection connection;

    private Jdbc(Connection connection) {
        this.connection = connection;
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.setProperty("user", System.getenv("JDBC_USER"));
        settings.setProperty("password", System.getenv("JDBC_PASSWORD"));
        try (Connection connection = DriverManager.getConnection(arguments[0], settings)) {
            new Jdbc(connection).answerAll();
        }
    }

    private void answerAll() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            for (int i = 0; i < words.length; i++) {
                words[i] = plain(words[i]);
            }
            try {
                List<String> rows = answer(words);
                out.println("ok " + rows.size());
                rows.forEach(out::println);
            } catch (SQLException error) {
                out.println("error " + escaped(error.getErrorCode() + " " + error.getMessage()));
            }
            out.flush();
        }
    }

    private List<String> answer(String[] words) throws SQLException {
        switch (words[0]) {
            case "tables":
                try (ResultSet found = connection.getMetaData().getTables(null, words[1], "%", null)) {
                    return rows(found, "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE", "REMARKS");
                }
            case "columns":
                try (ResultSet found = connection.getMetaData().getColumns(null, words[1], words[2], "%")) {
                    return rows(found, "TABLE_NAME", "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "NULLABLE", "REMARKS");
                }
            case "query":
                if (words.length == 2) {
                    try (Statement statement = connection.createStatement()) {
                        return statement.execute(words[1]) ? rows(statement.getResultSet()) : new ArrayList<>();
                    }
                }
                try (PreparedStatement prepared = connection.prepareStatement(words[1])) {
                    for (int i = 2; i < words.length; i++) {
                        prepared.setObject(i - 1, value(words[i]));
                    }
                    try (ResultSet found = prepared.executeQuery()) {
                        return rows(found);
                    }
                }
            case "stream":
                try (Statement statement = connection.createStatement()) {
                    return List.of(counted(statement, words[1]));
                }
            default:
                throw new SQLException("no such command: " + words[0]);
        }
    }

    /** Reads every value of every row and keeps none: the number of rows and of characters. */
    private static String counted(Statement statement, String sql) throws SQLException {
        long rows = 0;
        long characters = 0;
        statement.setFetchSize(1000);
        try (ResultSet found = statement.executeQuery(sql)) {
            int columns = found.getMetaData().getColumnCount();
            while (found.next()) {
                rows++;
                for (int i = 1; i <= columns; i++) {
                    String text = found.getString(i);
                    characters += text == null ? 0 : text.length();
                }
            }
        }
        return rows + "\t" + characters;
    }

    private static Object value(String word) {
        String text = word.substring(2);
        switch (word.charAt(0)) {
            case 'i':
                return Long.valueOf(text);
            case 't':
                return java.time.LocalDateTime.parse(text);
            default:
                return text;
        }
    }

    private static List<String> rows(ResultSet found, String... names) throws SQLException {
        ResultSetMetaData columns = found.getMetaData();
        List<String> rows = new ArrayList<>();
        int count = names.length == 0 ? columns.getColumnCount() : names.length;
        while (found.next()) {
            StringBuilder row = new StringBuilder();
            for (int i = 0; i < count; i++) {
                String text = names.length == 0 ? found.getString(i + 1) : found.getString(names[i]);
                row.append(i == 0 ? "" : "\t").append(text == null ? "\\N" : escaped(text));
            }
            rows.add(row.toString());
        }
        return rows;
    }

    private static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
    }

    private static String plain(String text) {
        StringBuilder made = new StringBuilder();
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            if (each == '\\' && i + 1 < text.length()) {
                i++;
                char code = text.charAt(i);
                made.append(code == 't' ? '\t' : code == 'n' ? '\n' : code == 'r' ? '\r' : code);
            } else {
                made.append(each);
            }
        }
        return made.toString();
    }
}
