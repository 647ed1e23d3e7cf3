package handlers

import "time"

// DeskRoutes returns the methods and templates of the desk's routes.
func (s *Server) DeskRoutes() (routes [][2]string) {
	for _, r := range s.desk.Routes {
		routes = append(routes, [2]string{r.Method, r.Template})
	}
	return routes
}

// RefusedQueries returns the queries that the list of events refuses. One names an
// account, which the desk takes.
func RefusedQueries() (queries []string) {
	for _, q := range refusedQueries {
		if q.param != "account" {
			queries = append(queries, q.query)
		}
	}
	return queries
}

// SearchFor changes how long a request searches for the first row of its page.
func (s *Server) SearchFor(d time.Duration) { s.API.SearchFor = d }
